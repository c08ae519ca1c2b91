import { type Theme, theme } from "./palette";

const THEME_KEY = "pgthaw-report-theme";

class Teller {
  readonly #listeners = new Set<() => void>();

  subscribe(listener: () => void): void {
    this.#listeners.add(listener);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }

  forget(): void {
    this.#listeners.clear();
  }
}

export class Appearance extends Teller {
  readonly #prefersDark = matchMedia("(prefers-color-scheme: dark)");
  #chosenTheme = tryStorage((storage) => storage.getItem(THEME_KEY));
  /** True while printing: charts then are light, and those off screen are drawn too. */
  isPrinting = false;

  constructor() {
    super();
    this.#prefersDark.addEventListener("change", () => this.#changed());
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => {
      this.isPrinting = event === "beforeprint";
      this.#changed();
    });
    this.#changed();
  }

  get theme(): Theme {
    const isDark = !this.isPrinting && (this.#chosenTheme === null ? this.#prefersDark.matches : this.#chosenTheme === "dark");
    return theme(isDark);
  }

  toggleTheme(): void {
    const chosen = this.theme.isDark ? "light" : "dark";
    this.#chosenTheme = chosen;
    tryStorage((storage) => storage.setItem(THEME_KEY, chosen));
    this.#changed();
  }

  #changed(): void {
    document.documentElement.dataset["theme"] = this.theme.isDark ? "dark" : "light";
    this.tell();
  }
}

/** Pages opened from a file may lack storage; the choice then lasts for the session. */
function tryStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

/** State that charts show. The charts redraw when this state or the appearance changes. */
export class Stage extends Teller {
  constructor(readonly appearance: Appearance) {
    super();
    appearance.subscribe(() => this.tell());
  }

  get theme(): Theme {
    return this.appearance.theme;
  }
}
