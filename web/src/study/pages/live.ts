// The trial that runs now, second by second.

import type { EChartsOption } from "echarts";
import type { Appearance } from "../../appearance";
import { textStyle } from "../../charts/engine";
import { type ChartPlan, figure, type View } from "../../charts/figure";
import { element, table } from "../../element";
import { bytes, compact, count } from "../../format";
import { linkTo } from "../address";
import { lineStyleOf } from "../colours";
import type { LiveTrial } from "../record";
import type { Source } from "../source";

const EVERY_MS = 1000;

/** A trial whose chart is drawn anew whenever it has another second. */
class LiveStage {
  readonly #listeners: (() => void)[] = [];

  constructor(
    readonly appearance: Appearance,
    public trial: LiveTrial,
  ) {
    appearance.subscribe(() => this.tell());
  }

  get theme(): Appearance["theme"] {
    return this.appearance.theme;
  }

  get isDark(): boolean {
    return this.appearance.isDark;
  }

  get isPrinting(): boolean {
    return this.appearance.isPrinting;
  }

  subscribe(listener: () => void): void {
    this.#listeners.push(listener);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** It asks again each second, as long as it is on the page. */
export async function livePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const content = element("div", {});
  const stages = new Map<string, { stage: LiveStage; box: HTMLElement; told: HTMLElement }>();
  const update = async (): Promise<void> => {
    const trials = await source.live();
    const running = new Set(trials.map((trial) => trial.sweep_id));
    for (const [id, { box }] of stages) {
      if (running.has(id)) continue;
      box.remove();
      stages.delete(id);
    }
    for (const trial of trials) {
      const known = stages.get(trial.sweep_id);
      if (known) {
        known.stage.trial = trial;
        known.told.textContent = progressOf(trial);
        known.stage.tell();
      } else {
        const stage = new LiveStage(appearance, trial);
        const told = element("p", { class: "study" }, progressOf(trial));
        const box = element("section", {}, element("h2", {}, element("a", { href: linkTo(["study", trial.sweep_id]) }, trial.question === "" ? trial.sweep_id : trial.question)), told, figure(plan(trial.sweep_id), stage));
        stages.set(trial.sweep_id, { stage, box, told });
        content.append(box);
      }
    }
    nothing.hidden = trials.length > 0;
  };
  const nothing = element("p", { id: "no-live", role: "status" }, "No sweep runs on this machine. One that begins appears here by itself.");
  await update();
  const timer = setInterval(() => {
    if (!content.isConnected) clearInterval(timer);
    // Somebody who does not look need not be told.
    else if (!document.hidden) void update().catch(() => undefined);
  }, EVERY_MS);
  return [element("h1", { tabindex: -1 }, "Running now"), nothing, content];
}

function progressOf(trial: LiveTrial): string {
  const done = trial.samples.at(-1);
  const minutes = Math.max(0, Math.round((trial.left_seconds - (Date.now() - Date.parse(trial.began_at)) / 1000) / 60));
  return [
    `trial ${trial.position} of ${trial.trials}: ${trial.label}, repeat ${trial.repeat}`,
    done === undefined ? "the start state is being made" : `second ${done.second}${trial.seconds === null ? "" : ` of ${trial.seconds}`}${done.tps === null ? "" : `, ${count(done.tps)} transactions per second`}`,
    minutes < 1 ? "about a minute left of the sweep" : `about ${minutes} min left of the sweep`,
  ].join(" · ");
}

function plan(id: string): ChartPlan<LiveStage> {
  return {
    id: `live-${id}`, title: "Transactions per second, and the database in the page cache", explanation: "As pgbench and the kernel tell it; what is kept is counted from pgbench’s log when the trial has ended.",
    unit: () => "transactions per second above, resident bytes below", height: () => 380, option,
    numbers: ({ state }) => table("Seconds so far", ["second", "transactions", "resident", "read"].map((title) => ({ title, isNumber: true })), state.trial.samples.map((one) => [String(one.second), one.tps === null ? "–" : count(one.tps), bytes(one.os_resident_bytes), bytes(one.device_read_bytes)])),
  };
}

function option({ state }: View<LiveStage>): EChartsOption {
  const { theme, trial } = state;
  const seconds = Math.max(10, trial.seconds ?? 0, trial.samples.at(-1)?.second ?? 0);
  const shared = { symbol: "circle", symbolSize: 4, showSymbol: trial.samples.length < 3, emphasis: { disabled: true } };
  const axis = { type: "value" as const, min: 0, max: seconds, axisLine: { lineStyle: { color: theme.soft } }, splitLine: { show: false } };
  const values = { type: "value" as const, min: 0, splitNumber: 3, splitLine: { lineStyle: { color: theme.rule } } };
  const [served, resident] = [lineStyleOf(0, state.isDark).color, lineStyleOf(2, state.isDark).color];
  return {
    textStyle: textStyle(theme),
    grid: [{ left: 66, right: 12, top: 10, height: 190 }, { left: 66, right: 12, top: 226, height: 110 }],
    xAxis: [{ ...axis, gridIndex: 0, axisLabel: { show: false } }, { ...axis, gridIndex: 1, axisLabel: { color: theme.soft, formatter: "{value} s" } }],
    yAxis: [{ ...values, gridIndex: 0, axisLabel: { color: theme.soft, formatter: compact } }, { ...values, gridIndex: 1, axisLabel: { color: theme.soft, formatter: bytes } }],
    series: [
      { ...shared, type: "line", id: "tps", xAxisIndex: 0, yAxisIndex: 0, data: trial.samples.map((one) => [one.second, one.tps]), lineStyle: { color: served, width: 2 }, itemStyle: { color: served } },
      { ...shared, type: "line", id: "resident", xAxisIndex: 1, yAxisIndex: 1, data: trial.samples.map((one) => [one.second, one.os_resident_bytes]), lineStyle: { color: resident, width: 2 }, itemStyle: { color: resident } },
    ],
  };
}
