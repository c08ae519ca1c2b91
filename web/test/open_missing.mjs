// Opens an address that nothing has, as a reader does who mistyped it, and prints what is seen as JSON.
// node open_missing.mjs ADDRESS
import { tellWhatIsSeen } from "./browser.mjs";

const [address] = process.argv.slice(2);
await tellWhatIsSeen(async (page) => {
  await page.goto(address);
  await page.locator(".studies a").first().waitFor();
  const links = await page.locator(".studies tbody th a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  return { told: await page.locator(".against").innerText(), links };
});
