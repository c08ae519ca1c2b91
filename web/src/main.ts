// Reads what stands in the page, and shows it: its studies, or those that the server has.

import "./report.css";
import "./study.css";
import type { charts } from "./charts/figure";
import { unfoldForPaper } from "./fold";
import type { PageData } from "./record";
import { showStudies } from "./app";
import { declareMetrics } from "./metrics";
import { EmbeddedSource, ServedSource } from "./source";

declare global {
  interface Window {
    /** For tests. */
    pgthawReport?: { charts: typeof charts };
  }
}

unfoldForPaper();
const page = JSON.parse(document.getElementById("pgthaw-data")?.textContent ?? "") as PageData;
declareMetrics(page.metrics);
showStudies(page.kind === "served" ? new ServedSource() : new EmbeddedSource(page.studies));
