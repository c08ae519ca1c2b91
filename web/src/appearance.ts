// Light or dark, on screen or on paper: what every chart redraws itself for.

import { type Theme, theme } from "./palette";

const THEME_KEY = "pgthaw-report-theme";

/** What a chart needs to know of the page around it. */
export interface Backdrop {
  readonly theme: Theme;
  readonly isDark: boolean;
  readonly isPrinting: boolean;
  subscribe(listener: () => void): void;
}

export class Appearance implements Backdrop {
  readonly #listeners = new Set<() => void>();
  readonly #prefersDark = matchMedia("(prefers-color-scheme: dark)");
  #chosenTheme: "light" | "dark" | null = readTheme();
  #isPrinting = false;

  constructor() {
    this.#prefersDark.addEventListener("change", () => this.#changed());
    addEventListener("beforeprint", () => this.#setPrinting(true));
    addEventListener("afterprint", () => this.#setPrinting(false));
    this.#markTheme();
  }

  subscribe(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Nothing that was drawn since is on the page any more. */
  remember(): () => void {
    const before = new Set(this.#listeners);
    return () => {
      for (const listener of this.#listeners) if (!before.has(listener)) this.#listeners.delete(listener);
    };
  }

  get isDark(): boolean {
    if (this.#isPrinting) return false;
    return this.#chosenTheme === null ? this.#prefersDark.matches : this.#chosenTheme === "dark";
  }

  /** Paper is white, and needs every chart at once. */
  get isPrinting(): boolean {
    return this.#isPrinting;
  }

  get theme(): Theme {
    return theme(this.isDark);
  }

  toggleTheme(): void {
    this.#chosenTheme = this.isDark ? "light" : "dark";
    try {
      localStorage.setItem(THEME_KEY, this.#chosenTheme);
    } catch {
      // A page opened from a file may be denied storage: the choice then lasts as long as the page.
    }
    this.#changed();
  }

  #changed(): void {
    this.#markTheme();
    for (const listener of this.#listeners) listener();
  }

  #setPrinting(isPrinting: boolean): void {
    this.#isPrinting = isPrinting;
    this.#changed();
  }

  #markTheme(): void {
    document.documentElement.dataset["theme"] = this.isDark ? "dark" : "light";
  }
}

/** A part of the page that is drawn anew when the page's appearance changes, or what is chosen in it. */
export class Stage implements Backdrop {
  readonly #listeners: (() => void)[] = [];

  constructor(readonly appearance: Appearance) {
    appearance.subscribe(() => this.tell());
  }

  get isPrinting(): boolean {
    return this.appearance.isPrinting;
  }

  get isDark(): boolean {
    return this.appearance.isDark;
  }

  get theme(): Theme {
    return this.appearance.theme;
  }

  subscribe(listener: () => void): void {
    this.#listeners.push(listener);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function readTheme(): "light" | "dark" | null {
  try {
    const stored = localStorage.getItem(THEME_KEY);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    return null;
  }
}
