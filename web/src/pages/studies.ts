import { type Child, element, paragraph, table } from "../element";
import type { Appearance } from "../appearance";
import { count, time, unbroken } from "../format";
import { linkTo, readAddress, remember } from "../address";
import type { StudyLine } from "../../generated/record";
import { firstChart } from "../sections/warm_up";
import type { Source } from "../source";

export async function studiesPage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const [all, live] = await Promise.all([source.studies(), source.live().catch(() => [])]);
  const running = new Map(live.map((trial) => [trial.sweep_id, `runs now: trial ${trial.position} of ${trial.trials}`]));
  const results = element("div", { "aria-live": "polite" });
  const chosen: string[] = [];
  const compare = element("a", { class: "go", hidden: true }, "Compare the two");
  const choose = (id: string, isChosen: boolean): void => {
    if (isChosen) chosen.push(id);
    else chosen.splice(chosen.indexOf(id), 1);
    compare.hidden = chosen.length !== 2;
    compare.href = linkTo(["compare"], { a: chosen[0] ?? "", b: chosen[1] ?? "" });
  };
  const draw = (): void => {
    const wanted = box.value.trim().toLowerCase().split(/\s+/);
    const found = all.filter((line) => wanted.every((word) => textOf(line).includes(word)));
    results.replaceChildren(paragraph("soft", found.length === all.length ? `${count(all.length)} in all` : `${count(found.length)} of ${count(all.length)}`), listOf(found, running, chosen, choose, source.isServed));
  };
  const box = element("input", {
    type: "search", id: "filter", value: readAddress().query.get("filter") ?? "", placeholder: "question, host, axis, date",
    input: () => { remember({ filter: box.value }); draw(); },
  });
  draw();
  return [
    element("h1", { tabindex: -1 }, "Studies"),
    ...(await answers(source, appearance, all)),
    element("div", { class: "pivot" }, element("label", { class: "choice" }, element("span", {}, "filter"), box), compare),
    results,
  ];
}

const MOST_ANSWERS = 4;

async function answers(source: Source, appearance: Appearance, lines: StudyLine[]): Promise<HTMLElement[]> {
  if (source.isServed || lines.length > MOST_ANSWERS) return [];
  const made = lines.map(async ({ id }) => {
    const study = await source.study(id);
    const title = element("h2", {}, element("a", { href: linkTo(["study", id]) }, study.subject === "" ? id : study.subject));
    return element("article", {}, title, paragraph("answer", unbroken(study.headline)), ...(await firstChart(source, appearance, study)));
  });
  return [element("div", { class: "answers" }, ...(await Promise.all(made)))];
}

const textOf = (line: StudyLine): string => [line.id, line.question, line.host, line.server, ...line.varied, line.started_at ?? ""].join(" ").toLowerCase();

function listOf(lines: StudyLine[], running: Map<string, string>, chosen: string[], choose: (id: string, isChosen: boolean) => void, isServed: boolean): HTMLElement {
  const columns = ["question", "started (UTC)", "state", "varies", "trials", "host", "server", ...(isServed ? ["compare"] : [])];
  const checkbox = ({ id, question }: StudyLine): HTMLElement =>
    element("input", { type: "checkbox", "aria-label": `Compare ${question}`, checked: chosen.includes(id), change: ({ target }) => choose(id, (target as HTMLInputElement).checked) });
  const rows = lines.map((line): Child[] => line.damaged !== null ? damagedRow(line, line.damaged, columns.length) : [
    element("a", { href: linkTo(["study", line.id]) }, line.question === "" ? line.id : line.question),
    time(line.started_at ?? "").slice(0, 19),
    running.has(line.id) ? element("a", { href: linkTo(["live"]) }, running.get(line.id)) : line.ended_at !== null ? "ended" : "not ended",
    line.varied.join(", ") || "nothing",
    `${count(line.trials)} of ${count(line.points * line.repeats)}${line.failures > 0 ? `, ${count(line.failures)} failed` : ""}`,
    line.host,
    line.server.split(" ")[0] ?? "",
    ...(isServed ? [checkbox(line)] : []),
  ]);
  return table("Studies", columns, rows, { className: "studies", texts: columns.flatMap((title, place) => (title === "trials" ? [] : [place])) });
}

const damagedRow = (line: StudyLine, why: string, columns: number): Child[] =>
  Array.from({ length: columns }, (_, index) => [line.id, "", element("span", { class: "against" }, why), "", count(line.trials)][index] ?? "");
