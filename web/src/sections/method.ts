// How each number came about.

import { element } from "../element";
import { fold } from "../fold";
import type { StudyData } from "../../generated/record";

const DEFINITIONS: [string, string][] = [
  ["warm", "Fewer than 1 % of transactions read from the device, sustained to the end of the trial. Seconds count from the start of the workload, which starts at the same moment as the strategy; within its second the moment is dated to a tenth by what the workload still read."],
  ["50, 90, 95 %", "Seconds until throughput, as a running median over a few seconds, reached that share of the steady level, in whole seconds. The steady level is one for the whole run: the median over all warm seconds of all trials."],
  ["bound", "The bytes that the warm state has in the page cache, divided by the bandwidth of the disk: no warmer that reads them all can be sooner."],
  ["served by then", "Transactions served until the strategy was warm, over the whole trial when it never was. “Nothing by then” is what the trials of “nothing” had served by the same instant."],
  ["medians and ranges", "Over the repeats. A repeat that did not get there counts as longer than all that did; a median or an end that is not known stands as “>” the trial's length."],
  ["ratios", "Always between the two trials of one round, whose order is random, so that a drift of the machine falls on both. The interval runs between two of the ratios in their order, of which so many are left out at each end as chance allows (the sign test’s interval; no distribution is assumed). A time that was not reached makes a ratio a limit: “<” or “>”."],
  ["device read", "Bytes that anybody read from the device in the whole trial, as the kernel counted them."],
  ["resident", "Measured with cachestat and mincore on the relations' files; shared_buffers with pg_buffercache. Pages whose read is still queued count as resident: a strategy that only asks for read-ahead seems to be done long before its data arrives."],
];

export function method({ sweep }: StudyData): HTMLElement {
  const list = DEFINITIONS.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]);
  return fold(
    "method",
    "How the numbers came about",
    element("dl", { class: "method" }, ...list),
    element("p", { class: "soft" }, `Made by pgthaw ${sweep.pgthaw_version}. This file needs no network and sends nothing. It draws with Apache ECharts (Apache-2.0) and zrender (BSD-3-Clause), whose notices and licences stand in its script.`),
  );
}
