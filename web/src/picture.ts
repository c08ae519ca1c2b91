// The first chart of a warmers' report as a standalone SVG for a README. Runs without a page.

import { Appearance } from "./appearance";
import { drawSvg } from "./charts/figure";
import { throughput } from "./charts/over_time";
import { type Drawn, WarmersStage } from "./curve_stage";
import { median } from "./curves";
import { bandwidth, bytes, instant, time } from "./format";
import type { SeriesStyle } from "./palette";
import { spreadOf } from "./metrics";
import type { StudyData, SweepTrial, TrialSeries } from "../generated/record";

const WIDTH = 880;
const MARGIN = 20;
const HEAD = 84;
const CHART = 340;
const FOOT = 76;
/** Pixels: height of a legend line, width of a swatch, gap, and width of a letter. */
const LINE = 20;
const SWATCH = 36;
const GAP = 16;
const LETTER = 6.4;

/** As printed by `results show --json`, with samples per second. */
interface StoredStudy extends Pick<StudyData, "headline" | "sweep" | "points" | "traffic"> {
  trials: (SweepTrial & { samples: { second: number; transactions: number }[] })[];
}

/** Draws the picture in the light theme, without the model's fitted warm-up curves. */
export function drawPicture(data: StoredStudy, [title = TITLE, explanation = EXPLANATION]: string[] = []): string {
  const trials = data.trials.map(({ point, repeat, samples }): Drawn => {
    const tps = samples.map(({ transactions }) => transactions);
    const series = { second: samples.map(({ second }) => second), tps: { mean: tps, min: tps, max: tps } } as TrialSeries;
    return { name: String(point["strategy"]), repeat, series, residency: [], judgement: null, no_verdict: null, startBytes: 0 };
  });
  const state = new WarmersStage(data, trials, median(data.trials.flatMap(({ warming }) => warming?.warm_tps ?? [])), new Appearance());
  const { theme } = state;
  const legend = legendOf(state);
  const top = HEAD + legend.height;
  const height = top + CHART + FOOT;
  const view = { state, theme, width: WIDTH - 2 * MARGIN, isNarrow: false, choices: {} };
  const curves = drawSvg({ ...throughput, height: () => CHART }, view);
  const text = (x: number, y: number, size: number, color: string, words: string, more = ""): string =>
    `<text x="${x}" y="${y}" font-size="${size}" fill="${color}"${more}>${escape(words)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title about" font-family="${FONT}">`,
    `<title id="title">${escape(data.headline)}</title>`,
    `<desc id="about">${escape([`${throughput.title}, ${throughput.unit(view)}.`, ...aboutOf(data)].join(" "))}</desc>`,
    `<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8" fill="${theme.paper}" stroke="${theme.rule}"/>`,
    text(MARGIN, 32, 17, theme.ink, title, ' font-weight="600"'),
    text(MARGIN, 54, 13, theme.soft, explanation),
    legend.markup,
    text(MARGIN, top - 8, 12, theme.soft, throughput.unit(view)),
    `<g transform="translate(${MARGIN} ${top})">${curves}</g>`,
    ...aboutOf(data).map((line, place) => text(MARGIN, top + CHART + 24 + place * 18, 12, theme.soft, line)),
    "</svg>\n",
  ].join("\n");
}

const FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";
const TITLE = "A cold PostgreSQL under load, by warmer";
const EXPLANATION = "A ring marks a warm server (under 1 % of transactions read from disk). “bound” is the least time: bytes to load ÷ bandwidth.";

function legendOf(state: WarmersStage): { markup: string; height: number } {
  const seconds = state.longest;
  let [x, y] = [MARGIN, HEAD - 6];
  const entries = state.points.map((point) => {
    const [strategy, median] = [point.label, spreadOf(point, "warm_after_seconds")?.median ?? null];
    const words = `${strategy}: ${median === null ? `not within ${seconds} s` : `warm after ${instant(median)}`}`;
    const width = SWATCH + words.length * LETTER + GAP;
    if (x > MARGIN && x + width > WIDTH) [x, y] = [MARGIN, y + LINE];
    const entry = `<g transform="translate(${Math.round(x)} ${y})">${swatch(state.style(strategy))}<text x="${SWATCH}" y="4" font-size="12" fill="${state.theme.ink}">${escape(words)}</text></g>`;
    x += width;
    return entry;
  });
  return { markup: entries.join("\n"), height: y - HEAD + 6 + LINE + 8 };
}

function swatch({ color, dash, symbol, width }: SeriesStyle): string {
  const dashes = dash.length > 0 ? ` stroke-dasharray="${dash.join(" ")}"` : "";
  return `<path d="M0 0H30" stroke="${color}" stroke-width="${width}"${dashes}/><path d="${symbol.path}" fill="${color}" transform="translate(10 -5)"/>`;
}

function aboutOf({ sweep, trials }: StoredStudy): string[] {
  const { machine, server, warmup, repeats: asked } = sweep;
  const { riops, rbps } = warmup?.disk ?? { riops: null, rbps: null };
  const point = trials[0]?.point ?? {};
  const limits = [riops === null ? null : `${riops} reads/s`, rbps === null ? null : bandwidth(rbps)].filter((limit) => limit !== null);
  const disk = limits.length === 0 ? "a disk without a limit" : `a disk of ${limits.join(" and ")}`;
  const repeats = asked === 1 ? "One trial each." : `Lines: medians of ${asked} trials; bands: lowest to highest.`;
  const cold = trials.filter((trial) => trial.start_state?.verdict === "cold").length;
  return [
    `pgbench's ${String(point["script"])} with ${String(point["clients"])} clients on a database of ${bytes(warmup?.database_bytes ?? 0)}, on ${disk}.`,
    `${repeats} Warmer and load began together; ${cold} of ${trials.length} trials began cold.`,
    `PostgreSQL ${server.version.split(" ")[0]}, ${machine.cores} × ${machine.cpu_model}, Linux ${machine.kernel}; measured on ${time(sweep.started_at).slice(0, 10)} with pgthaw ${sweep.pgthaw_version}.`,
  ];
}

const escape = (words: string): string => words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
