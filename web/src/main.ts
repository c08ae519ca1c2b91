// Reads what stands in the page, and shows it: its studies, or those that the server has.

import "./report.css";
import "./study.css";
import type { charts } from "./charts/figure";
import { unfoldForPaper } from "./fold";
import { parseShown } from "./format";
import type { PageData } from "../generated/record";
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
const page = parseShown(document.getElementById("pgthaw-data")?.textContent ?? "") as PageData;
declareMetrics(page.metrics);
if (page.kind === "studies") showStudies(new EmbeddedSource(page.studies));
else if (page.kind === "served") showStudies(new ServedSource());
// Where nothing is, the front page says so and leads on.
else location.replace(`/#${location.pathname}`);
