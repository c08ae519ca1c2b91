// The trial that runs now, second by second.

import type { EChartsOption } from "echarts";
import { type Appearance, Stage } from "../appearance";
import { textStyle } from "../charts/engine";
import { type ChartPlan, figure, type View } from "../charts/figure";
import { element, table } from "../element";
import { bandwidth, bytes, compact, count, sizeSteps } from "../format";
import { leftOf } from "../navigation";
import { linkTo } from "../address";
import { seriesStyle } from "../palette";
import type { LiveTrial } from "../../generated/record";
import type { Source } from "../source";

const EVERY_MS = 1000;

/** A trial whose chart is drawn anew whenever it has another second. */
class LiveStage extends Stage {
  constructor(
    appearance: Appearance,
    public trial: LiveTrial,
  ) {
    super(appearance);
  }
}

/** A trial on the page. */
class LiveBox {
  readonly #stage: LiveStage;
  readonly #told = element("p", { class: "study" });
  readonly #bar = element("progress", { "aria-label": "Of the trial" });
  /** Read aloud when another trial begins, and not each second. */
  readonly #announced = element("p", { class: "unseen", role: "status" });
  readonly box: HTMLElement;

  constructor(appearance: Appearance, trial: LiveTrial) {
    this.#stage = new LiveStage(appearance, trial);
    const title = element("h2", {}, element("a", { href: linkTo(["study", trial.sweep_id]) }, trial.question === "" ? trial.sweep_id : trial.question));
    this.box = element("section", { class: "live" }, title, this.#told, this.#bar, this.#announced, figure(plan(trial.sweep_id), this.#stage));
    this.show(trial);
  }

  show(trial: LiveTrial): void {
    this.#stage.trial = trial;
    this.#told.textContent = progressOf(trial);
    this.#bar.hidden = trial.seconds === null;
    this.#bar.max = trial.seconds ?? 1;
    this.#bar.value = trial.samples.at(-1)?.second ?? 0;
    const begun = `Trial ${trial.position} of ${trial.trials} runs: ${trial.label}, repeat ${trial.repeat}`;
    if (this.#announced.textContent !== begun) this.#announced.textContent = begun;
    this.#stage.tell();
  }
}

/** It asks again each second, as long as it is on the page. */
export async function livePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const content = element("div", {});
  const boxes = new Map<string, LiveBox>();
  const nothing = element("p", { id: "no-live", role: "status" }, "No study runs on this machine. One that begins appears here by itself.");
  const unanswered = element("p", { class: "against", role: "alert", hidden: true });
  const update = async (): Promise<void> => {
    const trials = await source.live();
    const running = new Set(trials.map((trial) => trial.sweep_id));
    for (const [id, { box }] of boxes) {
      if (running.has(id)) continue;
      box.remove();
      boxes.delete(id);
    }
    for (const trial of trials) {
      const known = boxes.get(trial.sweep_id);
      if (known) known.show(trial);
      else {
        const made = new LiveBox(appearance, trial);
        boxes.set(trial.sweep_id, made);
        content.append(made.box);
      }
    }
    nothing.hidden = trials.length > 0;
    unanswered.hidden = true;
  };
  const tell = (): void => {
    if (!unanswered.hidden) return;
    unanswered.textContent = `pgthaw serve does not answer since ${new Date().toLocaleTimeString()}: what is shown is from before.`;
    unanswered.hidden = false;
  };
  await update();
  const timer = setInterval(() => {
    if (!content.isConnected) clearInterval(timer);
    // Somebody who does not look need not be told.
    else if (!document.hidden) void update().catch(tell);
  }, EVERY_MS);
  return [element("h1", { tabindex: -1 }, "Running now"), nothing, unanswered, content];
}

function progressOf(trial: LiveTrial): string {
  const done = trial.samples.at(-1);
  return [
    `trial ${trial.position} of ${trial.trials}: ${trial.label}, repeat ${trial.repeat}`,
    done === undefined ? "the start state is being made" : `second ${done.second}${trial.seconds === null ? "" : ` of ${trial.seconds}`}${done.tps === null ? "" : `, ${count(done.tps)} transactions per second`}`,
    leftOf(trial).slice(2),
  ].join(" · ");
}

function plan(id: string): ChartPlan<LiveStage> {
  return {
    id: `live-${id}`, title: "Transactions per second, and the database in the page cache", explanation: "As pgbench and the kernel tell it; what is kept is counted from pgbench’s log when the trial has ended.",
    unit: () => "transactions per second above, bytes of the database in the page cache below", height: () => 380, option,
    numbers: ({ state }) => table("Seconds so far", ["second", "throughput (tps)", "resident", "read from the device, by anybody"].map((title) => ({ title, isNumber: true })), state.trial.samples.map((one) => [String(one.second), one.tps === null ? "–" : count(one.tps), bytes(one.os_resident_bytes), bandwidth(one.device_read_bytes)])),
  };
}

function option({ state }: View<LiveStage>): EChartsOption {
  const { theme, trial } = state;
  const seconds = Math.max(10, trial.seconds ?? 0, trial.samples.at(-1)?.second ?? 0);
  const shared = { symbol: "circle", symbolSize: 4, showSymbol: trial.samples.length < 3, emphasis: { disabled: true } };
  const axis = { type: "value" as const, min: 0, max: seconds, axisLine: { lineStyle: { color: theme.soft } }, splitLine: { show: false } };
  const values = { type: "value" as const, min: 0, splitNumber: 3, splitLine: { lineStyle: { color: theme.rule } } };
  const [served, resident] = [seriesStyle(0, state.isDark).color, seriesStyle(2, state.isDark).color];
  return {
    textStyle: textStyle(theme),
    grid: [{ left: 66, right: 16, top: 10, height: 190, outerBoundsMode: "none" }, { left: 66, right: 16, top: 226, height: 110, outerBoundsMode: "none" }],
    xAxis: [{ ...axis, gridIndex: 0, axisLabel: { show: false } }, { ...axis, gridIndex: 1, axisLabel: { color: theme.soft, formatter: "{value} s" } }],
    yAxis: [{ ...values, gridIndex: 0, axisLabel: { color: theme.soft, formatter: compact } }, { ...values, gridIndex: 1, ...sizeSteps(Math.max(...trial.samples.map((one) => one.os_resident_bytes), 1)), axisLabel: { color: theme.soft, formatter: bytes, hideOverlap: true } }],
    series: [
      { ...shared, type: "line", id: "tps", xAxisIndex: 0, yAxisIndex: 0, data: trial.samples.map((one) => [one.second, one.tps]), lineStyle: { color: served, width: 2 }, itemStyle: { color: served } },
      { ...shared, type: "line", id: "resident", xAxisIndex: 1, yAxisIndex: 1, data: trial.samples.map((one) => [one.second, one.os_resident_bytes]), lineStyle: { color: resident, width: 2 }, itemStyle: { color: resident } },
    ],
  };
}
