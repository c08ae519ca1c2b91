import { parseShown } from "./format";
import type { LiveTrial, StudyData, StudyInPage, StudyLine, SweepComparison, TrialData } from "../generated/record";

export interface Source {
  isServed: boolean;
  studies(): Promise<StudyLine[]>;
  study(id: string): Promise<StudyData>;
  /** `null` if the source lacks the trial. */
  trial(id: string, number: number, repeat: number): Promise<TrialData | null>;
  compare(a: string, b: string, metric: string): Promise<SweepComparison>;
  live(): Promise<LiveTrial[]>;
}

export function embedded(studies: StudyInPage[]): Source {
  const find = (id: string): StudyInPage => {
    const found = studies.find(({ study }) => study.sweep.id === id);
    if (!found) throw new Error(`the page has no study ${id}`);
    return found;
  };
  return {
    isServed: false,
    studies: async () => studies.map(({ study: { subject, sweep, trials } }) => ({
      ...sweep, question: subject, host: sweep.machine.hostname, server: sweep.server.version,
      trials: trials.length, failures: trials.filter((one) => one.failure !== null).length, damaged: null,
    })),
    study: async (id) => find(id).study,
    trial: async (id, number, repeat) => find(id).details?.find(({ trial }) => trial.number === number && trial.repeat === repeat) ?? null,
    compare: () => Promise.reject(new Error("a report cannot compare studies: use pgthaw results compare or pgthaw serve")),
    live: async () => [],
  };
}

export const served: Source = {
  isServed: true,
  studies: () => ask(`api/studies`),
  study: (id) => ask(`api/studies/${encodeURIComponent(id)}`),
  trial: (id, number, repeat) => ask(`api/studies/${encodeURIComponent(id)}/trials/${number}/${repeat}`),
  compare: (a, b, metric) => ask(`api/compare?${new URLSearchParams({ a, b, metric })}`),
  live: () => ask(`api/live`),
};

async function ask<T>(address: string): Promise<T> {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (answer.ok) return parseShown(await answer.text()) as T;
  const told = (await answer.json().catch(() => null)) as { error?: { message?: string } } | null;
  throw new Error(told?.error?.message ?? `the server answered ${answer.status}`);
}
