// Where studies come from: the page itself, or the server that it came from.

import { parseShown } from "./format";
import type { SweepComparison, LiveTrial, StudyData, StudyInPage, StudyLine, TrialData } from "../generated/record";

export interface Source {
  isServed: boolean;
  studies(): Promise<StudyLine[]>;
  study(id: string): Promise<StudyData>;
  /** null: it is not here. */
  trial(id: string, number: number, repeat: number): Promise<TrialData | null>;
  compare(a: string, b: string, metric: string): Promise<SweepComparison>;
  live(): Promise<LiveTrial[]>;
}

export class EmbeddedSource implements Source {
  readonly isServed = false;
  readonly #studies: StudyInPage[];

  constructor(studies: StudyInPage[]) {
    this.#studies = studies;
  }

  async studies(): Promise<StudyLine[]> {
    return this.#studies.map(({ study: { subject, sweep, trials } }) => ({
      id: sweep.id,
      question: subject,
      started_at: sweep.started_at,
      ended_at: sweep.ended_at,
      host: sweep.machine.hostname,
      server: sweep.server.version,
      varied: sweep.varied,
      points: sweep.points,
      repeats: sweep.repeats,
      trials: trials.length,
      failures: trials.filter((one) => one.failure !== null).length,
      damaged: null,
    }));
  }

  async study(id: string): Promise<StudyData> {
    return this.#find(id).study;
  }

  async trial(id: string, number: number, repeat: number): Promise<TrialData | null> {
    const details = this.#find(id).details ?? [];
    return details.find(({ trial }) => trial.number === number && trial.repeat === repeat) ?? null;
  }

  compare(): Promise<SweepComparison> {
    return Promise.reject(new Error("a report does not compare: pgthaw results compare, or pgthaw serve"));
  }

  async live(): Promise<LiveTrial[]> {
    return [];
  }

  #find(id: string): StudyInPage {
    const found = this.#studies.find(({ study }) => study.sweep.id === id);
    if (!found) throw new Error(`the page has no study ${id}`);
    return found;
  }
}

export class ServedSource implements Source {
  readonly isServed = true;

  studies(): Promise<StudyLine[]> {
    return ask(`api/studies`);
  }

  study(id: string): Promise<StudyData> {
    return ask(`api/studies/${encodeURIComponent(id)}`);
  }

  trial(id: string, number: number, repeat: number): Promise<TrialData | null> {
    return ask(`api/studies/${encodeURIComponent(id)}/trials/${number}/${repeat}`);
  }

  compare(a: string, b: string, metric: string): Promise<SweepComparison> {
    return ask(`api/compare?${new URLSearchParams({ a, b, metric })}`);
  }

  live(): Promise<LiveTrial[]> {
    return ask(`api/live`);
  }
}

async function ask<T>(address: string): Promise<T> {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (answer.ok) return parseShown(await answer.text()) as T;
  const told = (await answer.json().catch(() => null)) as { error?: { message?: string } } | null;
  throw new Error(told?.error?.message ?? `the server answered ${answer.status}`);
}
