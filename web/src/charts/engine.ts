// The parts of ECharts that are used, and nothing else of it.

import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import type { Theme } from "../palette";

echarts.use([
  AriaComponent,
  BarChart,
  CustomChart,
  GridComponent,
  HeatmapChart,
  LineChart,
  MarkAreaComponent,
  MarkLineComponent,
  ScatterChart,
  SVGRenderer,
  TitleComponent,
  TooltipComponent,
  VisualMapComponent,
]);

/** The page's own letters: ECharts measures text itself and needs their name. */
export const textStyle = (theme: Theme): { fontFamily: string; color: string } => ({
  fontFamily: getComputedStyle(document.body).fontFamily,
  color: theme.soft,
});

export type Chart = echarts.EChartsType;

/** SVG: crisp at every size and in print, and a few thousand points are little for it. */
export const createChart = (box: HTMLElement): Chart => echarts.init(box, null, { renderer: "svg" });

/** A chart without a page, for a picture in a file. */
export const createPicture = (width: number, height: number): Chart => echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
