// The address after the #: the page and the choices on it, so links can restore both.

export function readAddress(): { path: string[]; query: URLSearchParams } {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter((part) => part !== "").map(decode), query: new URLSearchParams(query) };
}

/** Returns invalid escapes unchanged. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function linkTo(path: (string | number)[], query: Record<string, string> = {}): string {
  const chosen = new URLSearchParams(query).toString();
  return `#/${path.map((part) => encodeURIComponent(String(part))).join("/")}${chosen === "" ? "" : `?${chosen}`}`;
}

export function remember(choices: Record<string, string>): void {
  const { path, query } = readAddress();
  for (const [name, value] of Object.entries(choices)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, "", linkTo(path, Object.fromEntries(query)));
}
