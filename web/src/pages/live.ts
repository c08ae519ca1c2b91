import { linkTo } from "../address";
import { type Appearance, Stage } from "../appearance";
import { figure } from "../charts/figure";
import { type Line, timePlan } from "../charts/time_chart";
import { DEVICE, RESIDENT, THROUGHPUT } from "../charts/trial_chart";
import { alarm, askWhileShown, element } from "../element";
import { count } from "../format";
import { seriesStyle } from "../palette";
import type { LiveTrial } from "../../generated/record";
import type { Source } from "../source";

class LiveStage extends Stage {
  readonly #told = element("p", { class: "study" });
  readonly #bar = element("progress", { "aria-label": "Progress of the trial" });
  /** Text for screen readers, which announce it only when a trial begins. */
  readonly #announced = element("p", { class: "unseen", role: "status" });
  readonly box: HTMLElement;

  constructor(appearance: Appearance, public trial: LiveTrial) {
    super(appearance);
    const { sweep_id: id, question } = trial;
    const title = element("h2", {}, element("a", { href: linkTo(["study", id]) }, question === "" ? id : question));
    this.box = element("section", { class: "live" }, title, this.#told, this.#bar, this.#announced, figure(planOf(id), this));
  }

  show(trial: LiveTrial): void {
    this.trial = trial;
    const { seconds, samples, position, trials, label, repeat } = trial;
    const done = samples.at(-1);
    const served = done === undefined || done.tps === null ? "" : `, ${count(done.tps)} transactions per second`;
    const second = done === undefined ? "preparing the start state" : `second ${done.second}${seconds === null ? "" : ` of ${seconds}`}${served}`;
    this.#told.textContent = `trial ${position} of ${trials}: ${label}, repeat ${repeat} · ${second} · ${leftOf(trial)}`;
    this.#bar.hidden = seconds === null;
    this.#bar.max = seconds ?? 1;
    this.#bar.value = done?.second ?? 0;
    const announced = `Trial ${position} of ${trials} runs: ${label}, repeat ${repeat}`;
    if (this.#announced.textContent !== announced) this.#announced.textContent = announced;
    this.tell();
  }
}

export async function livePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const content = element("div", {});
  const stages = new Map<string, LiveStage>();
  const nothing = element("p", { id: "no-live", role: "status" }, "No study runs on this machine. This page shows a study as soon as it starts.");
  const unanswered = alarm("");
  const update = async (): Promise<void> => {
    const trials = await source.live();
    for (const trial of trials) {
      const stage = stages.get(trial.sweep_id) ?? new LiveStage(appearance, trial);
      stages.set(trial.sweep_id, stage);
      stage.show(trial);
      if (!content.contains(stage.box)) content.append(stage.box);
    }
    for (const [id, { box }] of stages) {
      if (trials.some((trial) => trial.sweep_id === id)) continue;
      box.remove();
      stages.delete(id);
    }
    nothing.hidden = trials.length > 0;
    unanswered.hidden = true;
  };
  await update();
  askWhileShown(content, 1000, update, () => {
    if (!unanswered.hidden) return;
    unanswered.textContent = `pgthaw serve has not answered since ${new Date().toLocaleTimeString()}: this page shows older data.`;
    unanswered.hidden = false;
  });
  return [element("h1", { tabindex: -1 }, "Running now"), nothing, unanswered, content];
}

/** `about 4 min left` of the study. */
export function leftOf({ left_seconds: left, began_at: began }: LiveTrial): string {
  const minutes = Math.round((left - (Date.now() - Date.parse(began)) / 1000) / 60);
  return minutes < 1 ? "about a minute left" : `about ${count(minutes)} min left`;
}

const planOf = (id: string) => timePlan<LiveStage>({
  id: `live-${id}`, title: "Second by second", unit: () => "each point is a second",
  explanation: "Live figures of pgbench and the kernel. After the trial pgthaw computes the stored figures from pgbench’s log.",
}, ({ state: { trial: { samples, seconds } }, theme }) => {
  const line = (id: string, name: string, place: number, values: (number | null)[]): Line[] => [
    { id, name, style: seriesStyle(place, theme.isDark), points: values.map((median, index) => ({ at: samples[index]?.second ?? 0, median, min: null, max: null })) },
  ];
  return {
    panels: [
      { ...THROUGHPUT, lines: line("tps", "throughput", 0, samples.map(({ tps }) => tps)) },
      { ...RESIDENT, lines: line("resident", "resident", 2, samples.map(({ os_resident_bytes: resident }) => resident)) },
      { ...DEVICE, lines: line("device", "read from the device, all processes", 0, samples.map(({ device_read_bytes: read }) => read)) },
    ],
    longest: Math.max(10, seconds ?? 0, samples.at(-1)?.second ?? 0),
    renderInstant: (at) => `second ${at}`,
    instants: { title: "second", ends: samples.map(({ second }) => second) },
  };
});
