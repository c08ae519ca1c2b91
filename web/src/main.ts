// Reads what stands in the page, and shows it: runs, studies, or what the server has.

import "./report.css";
import "./study/study.css";
import type { charts } from "./charts/figure";
import { unfoldForPaper } from "./fold";
import type { PageData } from "./record";
import { showRuns } from "./run_report";
import { showStudies } from "./study/app";
import { declareMetrics } from "./study/metrics";
import type { StudiesPageData } from "./study/record";
import { EmbeddedSource, ServedSource } from "./study/source";

declare global {
  interface Window {
    /** For tests. */
    pgthawReport?: { charts: typeof charts };
  }
}

unfoldForPaper();
const json = document.getElementById("pgthaw-data")?.textContent ?? "";
const page = JSON.parse(json) as PageData | StudiesPageData;
if (page.kind === "runs") showRuns(page, json);
else {
  declareMetrics(page.metrics);
  showStudies(page.kind === "served" ? new ServedSource() : new EmbeddedSource(page.studies));
}
