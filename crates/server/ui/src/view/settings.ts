/** The settings of a conversation, as a form that is kept as it is typed. */

import { hasKey } from "../client.ts";
import { element, iconButton } from "../dom.ts";
import { BadSetting, type Settings, toolsOf } from "../settings.ts";

const EXAMPLE_TOOL = `[
  {
    "name": "weather",
    "description": "The weather at a place",
    "parameters": {
      "type": "object",
      "properties": { "city": { "type": "string" } },
      "required": ["city"]
    }
  }
]`;

const EXAMPLE_SCHEMA = `{
  "type": "object",
  "properties": { "answer": { "type": "string" }, "sure": { "type": "boolean" } },
  "required": ["answer", "sure"]
}`;

export interface SettingsWishes {
  changed(): void;
  asDefault(): void;
  key(): void;
  forgetKey(): void;
}

interface Field {
  name: keyof Settings;
  label: string;
  hint?: string;
}

const SAMPLING: Field[] = [
  { name: "temperature", label: "Temperature", hint: "0 always takes the likeliest token" },
  { name: "top_p", label: "Top p" },
  { name: "top_k", label: "Top k" },
  { name: "min_p", label: "Min p" },
  { name: "repetition_penalty", label: "Repetition penalty" },
  { name: "frequency_penalty", label: "Frequency penalty" },
  { name: "presence_penalty", label: "Presence penalty" },
  { name: "max_tokens", label: "Most tokens" },
  { name: "seed", label: "Seed", hint: "The same seed gives the same answer" },
];

export class SettingsView {
  readonly dialog: HTMLDialogElement;
  readonly #wishes: SettingsWishes;
  #settings: Settings | null = null;
  readonly #fields = new Map<keyof Settings, HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>();
  readonly #problem = element("p", { class: "field-problem", role: "alert", id: "tools-problem" });
  readonly #schema: HTMLElement;
  readonly #forget: HTMLButtonElement;

  constructor(wishes: SettingsWishes) {
    this.#wishes = wishes;
    const system = this.#area("system", "System prompt", "How the model is to behave, in all of this conversation", 4);
    const reasoning = this.#choice("reasoning", "Reasoning", [
      ["", "As the server does"],
      ["none", "None"],
      ["low", "A little"],
      ["medium", "Some"],
      ["high", "Much"],
    ]);
    const sampling = SAMPLING.map((field) => this.#number(field));
    const stop = this.#area("stop", "Stop at", "Texts that end the answer, one a line", 2);
    const format = this.#choice("format", "Answer as", [
      ["", "Text"],
      ["json_object", "JSON"],
      ["json_schema", "JSON that obeys a schema"],
    ]);
    this.#schema = this.#area("schema", "Schema", EXAMPLE_SCHEMA, 6, true);
    const tools = this.#area("tools", "Tools", `Definitions as JSON, such as\n${EXAMPLE_TOOL}`, 8, true);
    this.#fields.get("tools")?.setAttribute("aria-describedby", "tools-problem");
    const choice = this.#choice("tool_choice", "Calls", [
      ["", "When the model wants to"],
      ["required", "Always"],
      ["none", "Never"],
    ]);
    this.#forget = element("button", { type: "button", onclick: () => this.#wishes.forgetKey() }, "Forget the key");
    this.dialog = element(
      "dialog",
      { class: "drawer", "aria-labelledby": "settings-title" },
      element(
        "header",
        {},
        element("h2", { id: "settings-title" }, "Settings"),
        iconButton("close", "Close settings", () => this.dialog.close()),
      ),
      element("p", { class: "hint" }, "They hold for this conversation. What is left empty is the model's own."),
      system,
      reasoning,
      group("Sampling", ...sampling, stop),
      group("Format", format, this.#schema),
      group("Tools", tools, this.#problem, element("button", { type: "button", onclick: () => this.#example() }, "Put an example"), choice),
      group(
        "This browser",
        element("button", { type: "button", onclick: () => this.#wishes.asDefault() }, "Begin new conversations with these settings"),
        element("button", { type: "button", onclick: () => this.#wishes.key() }, "Enter a key …"),
        this.#forget,
        element("p", { class: "hint" }, "Enter sends, Shift+Enter begins a line, Esc stops, Ctrl+K finds or begins a conversation, Ctrl+, opens these settings."),
      ),
    );
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  open(settings: Settings): void {
    this.#settings = settings;
    for (const [name, field] of this.#fields) field.value = settings[name];
    this.#forget.hidden = !hasKey();
    this.#check();
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** Opens at the field that is to blame. */
  openAt(settings: Settings, field: keyof Settings): void {
    this.open(settings);
    this.#fields.get(field)?.focus();
  }

  #example(): void {
    const tools = this.#fields.get("tools");
    if (!tools || !this.#settings) return;
    tools.value = EXAMPLE_TOOL;
    this.#set("tools", EXAMPLE_TOOL);
    tools.focus();
  }

  #set(name: keyof Settings, value: string): void {
    if (!this.#settings) return;
    (this.#settings as unknown as Record<string, string>)[name] = value;
    this.#check();
    this.#wishes.changed();
  }

  #check(): void {
    if (!this.#settings) return;
    this.#schema.hidden = this.#settings.format !== "json_schema";
    let problem = "";
    try {
      toolsOf(this.#settings);
    } catch (error) {
      problem = error instanceof BadSetting ? error.message : String(error);
    }
    if (this.#problem.textContent !== problem) this.#problem.textContent = problem;
    this.#fields.get("tools")?.setAttribute("aria-invalid", String(problem !== ""));
  }

  #number({ name, label, hint }: Field): HTMLElement {
    const field = element("input", { type: "text", inputmode: "decimal", autocomplete: "off", placeholder: "the model’s", title: hint, name });
    return this.#labelled(name, label, field);
  }

  #area(name: keyof Settings, label: string, placeholder: string, rows: number, isCode = false): HTMLElement {
    const field = element("textarea", { rows, placeholder, name, spellcheck: isCode ? "false" : null, class: isCode ? "code-area" : null });
    return this.#labelled(name, label, field);
  }

  #choice(name: keyof Settings, label: string, options: [string, string][]): HTMLElement {
    const field = element("select", { name }, ...options.map(([value, text]) => element("option", { value }, text)));
    return this.#labelled(name, label, field);
  }

  #labelled(name: keyof Settings, label: string, field: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement): HTMLElement {
    this.#fields.set(name, field);
    field.addEventListener("input", () => this.#set(name, field.value));
    field.id = `setting-${name}`;
    return element("div", { class: "field" }, element("label", { for: field.id }, label), field);
  }
}

function group(title: string, ...children: HTMLElement[]): HTMLElement {
  return element("fieldset", {}, element("legend", {}, title), ...children);
}
