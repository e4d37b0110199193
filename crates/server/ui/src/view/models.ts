/** Which model answers, and how far it has been loaded. */

import { type Model, Refused, loadProgress, models } from "../client.ts";
import { element } from "../dom.ts";

export interface ModelWishes {
  chosen(name: string): void;
  /** The server asks for a key. */
  refused(): void;
}

export class ModelPicker {
  readonly element: HTMLElement;
  readonly #wishes: ModelWishes;
  readonly #select = element("select", { "aria-label": "Model", disabled: true }, element("option", { value: "" }, "…"));
  readonly #bar = element("progress", { max: 1, "aria-label": "Loading of the model", hidden: true });
  readonly #note = element("span", { class: "hint", role: "status" });
  #models: Model[] = [];
  #wanted = "";
  #isWatching = false;

  constructor(wishes: ModelWishes) {
    this.#wishes = wishes;
    this.element = element("div", { class: "models" }, this.#select, this.#bar, this.#note);
    this.#select.addEventListener("change", () => {
      this.#wanted = this.#select.value;
      wishes.chosen(this.#select.value);
    });
    document.addEventListener("visibilitychange", () => !document.hidden && this.refresh());
  }

  /** The model that answers where none is chosen, if that is known. */
  get only(): string {
    return this.#select.value;
  }

  show(name: string): void {
    this.#wanted = name;
    this.#draw();
  }

  refresh(): void {
    models().then(
      (models) => {
        this.#models = models;
        this.#note.textContent = "";
        this.#draw();
      },
      (error: unknown) => {
        this.#note.textContent = error instanceof Refused ? "" : "no connection";
        if (error instanceof Refused && error.status === 401) this.#wishes.refused();
        // It may come back.
        else setTimeout(() => this.refresh(), 5_000);
      },
    );
  }

  /** Shows how far a model has been loaded, once. */
  watch(name: string): void {
    if (this.#isWatching || !name) return;
    this.#isWatching = true;
    void loadProgress(name).then((part) => {
      this.#isWatching = false;
      this.#bar.hidden = part === null;
      this.#note.textContent = part === null ? "" : Number.isNaN(part) ? "loading" : `loading, ${Math.round(part * 100)}%`;
      if (part === null || Number.isNaN(part)) this.#bar.removeAttribute("value");
      else this.#bar.value = part;
    });
  }

  /** An answer has ended: nothing is being loaded for it, and what is in memory may have changed. */
  settled(): void {
    const wasShown = !this.#bar.hidden || this.#note.textContent !== "";
    this.#bar.hidden = true;
    this.#note.textContent = "";
    if (wasShown || this.#models.some((model) => standing(model) !== "")) this.refresh();
  }

  #draw(): void {
    if (!this.#models.length) return;
    const isKnown = this.#models.some((model) => model.id === this.#wanted);
    const options = this.#models.map((model) => {
      const window = model.context_length ? `${model.context_length.toLocaleString()} tokens of window` : null;
      return element("option", { value: model.id, title: window }, `${model.id}${standing(model)}`);
    });
    if (this.#wanted && !isKnown) options.push(element("option", { value: this.#wanted, title: null }, `${this.#wanted} (not here)`));
    this.#select.replaceChildren(...options);
    this.#select.value = this.#wanted || (this.#models[0]?.id ?? "");
    this.#select.disabled = false;
  }
}

/** What a person needs to know before they ask a model. */
function standing(model: Model): string {
  switch (model.state) {
    case undefined:
    case "loaded":
      return "";
    case "unloaded":
      return " (loads when asked)";
    case "loading":
      return " (is being loaded)";
    case "failed":
      return " (could not be loaded)";
    default:
      return ` (${model.state})`;
  }
}
