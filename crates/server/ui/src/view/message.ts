/** A message as it is seen, and what can be done with it. */

import type { Pace } from "../answer.ts";
import { copyButton, element, iconButton, sparkline } from "../dom.ts";
import { Markdown, jsonBlock } from "../markdown.ts";
import { isJson } from "../settings.ts";
import type { Message, Stats } from "../tree.ts";

/** What a person asks of a message. */
export interface Wishes {
  /** Another answer in the place of this one. */
  again(message: Message): void;
  /** Other words in the place of these. */
  edited(message: Message, text: string): void;
  /** The other version before or after this one. */
  turn(message: Message, by: -1 | 1): void;
  /** The results of its calls, in their order. */
  results(message: Message, results: string[]): void;
  key(): void;
}

/** What is known of a message beside itself. */
export interface Place {
  /** Which of its versions it is, from 0, and how many there are. */
  version: number;
  versions: number;
  isLast: boolean;
  /** While it is written. */
  pace: Pace | null;
}

export class MessageView {
  readonly element: HTMLElement;
  readonly #message: Message;
  readonly #wishes: Wishes;
  readonly #text = new Markdown();
  readonly #body = element("div", { class: "body" });
  readonly #foot = element("footer");
  readonly #head = element("header");
  #reasoning: { details: HTMLDetailsElement; summary: HTMLElement; text: Markdown } | null = null;
  #calls: HTMLElement[] = [];
  #callsBox = element("div", { class: "calls" });
  #results: HTMLFormElement | null = null;
  #problem: HTMLElement | null = null;
  #problemKey = "";
  #editor: HTMLElement | null = null;
  #footKey = "";

  constructor(message: Message, wishes: Wishes) {
    this.#message = message;
    this.#wishes = wishes;
    this.element = element("article", { class: "message", "data-role": message.role }, this.#head, this.#body, this.#callsBox, this.#foot);
    if (message.role !== "assistant") this.#body.append(message.role === "tool" ? toolBody(message) : plain(message.content));
  }

  update(place: Place): void {
    const message = this.#message;
    const who = message.role === "user" ? "You" : message.role === "tool" ? `Result of ${message.name ?? "a call"}` : (message.model ?? "Answer");
    if (this.#head.textContent !== who) this.#head.replaceChildren(element("h2", {}, who));
    this.element.setAttribute("aria-label", who);
    this.element.setAttribute("aria-busy", String(place.pace !== null));
    if (message.role === "assistant") {
      this.#updateReasoning(place);
      this.#updateText(place);
      this.#updateCalls(place);
      this.#updateProblem(place);
    }
    this.#updateFoot(place);
  }

  #updateReasoning(place: Place): void {
    const { reasoning, stats, content, calls } = this.#message;
    if (!reasoning) return;
    if (!this.#reasoning) {
      const summary = element("summary");
      const text = new Markdown();
      const details = element("details", { class: "reasoning" }, summary, text.element);
      this.#reasoning = { details, summary, text };
      this.#body.before(details);
    }
    const isThinking = place.pace !== null && !content && !calls?.length;
    const time_s = (stats?.reasoning_ms ?? 0) / 1000;
    this.#reasoning.summary.textContent = isThinking ? "Thinking …" : time_s >= 1 ? `Thought for ${time_s.toFixed(0)} s` : "Thoughts";
    this.#reasoning.text.update(reasoning);
  }

  #updateText(place: Place): void {
    const { content, finish } = this.#message;
    const waiting = waitingText(place.pace, this.#message);
    if (waiting) {
      this.#body.replaceChildren(element("p", { class: "waiting" }, waiting));
      return;
    }
    const isWhole = finish !== undefined && place.pace === null;
    if (isWhole && /^\s*[[{]/.test(content) && isJson(content)) {
      this.#body.replaceChildren(jsonBlock(content));
      return;
    }
    this.#text.update(content);
    if (this.#text.element.parentNode !== this.#body) this.#body.replaceChildren(this.#text.element);
  }

  #updateCalls(place: Place): void {
    const { calls = [], finish, problem } = this.#message;
    const isWhole = finish !== undefined && !place.pace;
    calls.forEach((call, index) => {
      const key = `${call.name}\n${call.arguments}`;
      const old = this.#calls[index];
      if (old?.dataset["key"] === key) return;
      const made = element(
        "section",
        { class: "call", "aria-label": `Call of ${call.name}` },
        element("p", { class: "call-name" }, "Calls ", element("code", {}, call.name)),
        jsonBlock(call.arguments),
      );
      made.dataset["key"] = key;
      this.#calls[index] = made;
      if (old) old.replaceWith(made);
      else this.#callsBox.append(made);
    });
    const wanted = calls.length > 0 && isWhole && place.isLast && !problem;
    if (wanted && !this.#results) this.#callsBox.append((this.#results = this.#resultsForm()));
    if (!wanted) {
      this.#results?.remove();
      this.#results = null;
    }
  }

  #resultsForm(): HTMLFormElement {
    const calls = this.#message.calls ?? [];
    const boxes = calls.map((call) =>
      element("textarea", { rows: 2, placeholder: "What the tool answers, as text or JSON", "aria-label": `Result of ${call.name}`, spellcheck: "false" }),
    );
    const send = (): void => this.#wishes.results(this.#message, boxes.map((box) => box.value));
    const fields = boxes.map((box, index) => element("label", {}, `Result of ${calls[index]?.name ?? "the call"}`, box));
    const form = element("form", { class: "results" }, ...fields, element("button", { type: "submit", class: "primary" }, calls.length > 1 ? "Send results" : "Send result"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        if (event.target instanceof HTMLTextAreaElement) {
          event.preventDefault();
          send();
        }
      }
    });
    return form;
  }

  #updateProblem(place: Place): void {
    const { problem, finish } = this.#message;
    const isOrphan = finish === undefined && !place.pace;
    const shown = problem ?? (isOrphan ? { kind: "closed" as const, message: "It is being written in another window, or its page was closed." } : null);
    const key = place.pace || !shown ? "" : JSON.stringify(shown);
    // It is read out when it comes, not each time that something else is drawn.
    if (key === this.#problemKey) return;
    this.#problemKey = key;
    this.#problem?.remove();
    this.#problem = null;
    if (!shown || place.pace) return;
    const title = {
      refused: "The server did not accept this",
      lost: "The connection was lost",
      closed: "This answer is not finished",
      key: "The server asks for a key",
      busy: "The server is busy",
    }[shown.kind];
    const hints: string[] = [];
    if (shown.kind === "refused" && problem?.param) hints.push(`The field is ${problem.param}. Change it in the settings or in your message, then try again.`);
    if (shown.kind === "lost" && this.#message.content) hints.push("What had come until then is kept above.");
    this.#problem = element(
      "div",
      { class: "problem", role: shown.kind === "closed" ? null : "alert", "data-kind": shown.kind },
      element("strong", {}, title),
      element("p", {}, shown.message),
      ...hints.map((hint) => element("p", { class: "hint" }, hint)),
      shown.kind === "key" && element("button", { type: "button", class: "primary", onclick: () => this.#wishes.key() }, "Enter the key"),
      element("button", { type: "button", onclick: () => this.#wishes.again(this.#message) }, "Try again"),
    );
    this.#foot.before(this.#problem);
  }

  #updateFoot(place: Place): void {
    const message = this.#message;
    const key = JSON.stringify([place.version, place.versions, place.pace !== null, message.finish, this.#editor !== null]);
    const stats = message.role === "assistant" ? statsLine(message, place.pace) : null;
    if (key === this.#footKey) {
      // Buttons stay as they are, so that nobody loses the focus while an answer is written.
      const old = this.#foot.querySelector(".stats");
      if (old && stats) old.replaceWith(stats);
      return;
    }
    this.#footKey = key;
    const focused = this.#foot.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
    const buttons: (HTMLElement | null)[] = place.pace || this.#editor ? [] : this.#buttons();
    const picker =
      place.versions > 1 &&
      element(
        "span",
        { class: "versions", role: "group", "aria-label": "Versions" },
        iconButton("left", "Version before", () => this.#wishes.turn(message, -1), { disabled: place.version === 0 }),
        element("span", { class: "version", "aria-label": `Version ${place.version + 1} of ${place.versions}`, role: "img" }, `${place.version + 1}/${place.versions}`),
        iconButton("right", "Version after", () => this.#wishes.turn(message, 1), { disabled: place.version === place.versions - 1 }),
      );
    this.#foot.replaceChildren(...[picker || null, ...buttons, stats].filter((part) => part !== null));
    if (focused) this.#foot.querySelector<HTMLElement>(`[aria-label="${focused}"]:not(:disabled)`)?.focus();
  }

  #buttons(): (HTMLElement | null)[] {
    const message = this.#message;
    return [
      message.content || message.role !== "assistant" ? copyButton("Copy message", () => message.content) : null,
      message.role !== "tool" ? iconButton("edit", message.role === "user" ? "Edit message" : "Edit answer", () => this.#edit()) : null,
      message.role === "assistant" ? iconButton("redo", "Answer again", () => this.#wishes.again(message)) : null,
    ];
  }

  #edit(): void {
    const message = this.#message;
    const area = element("textarea", { "aria-label": "New text of the message", rows: Math.min(message.content.split("\n").length + 1, 14) });
    area.value = message.content;
    const close = (): void => {
      this.#editor?.replaceWith(this.#body);
      this.#editor = null;
      this.#footKey = "";
      this.#updateFoot(this.#place);
      this.#foot.querySelector<HTMLElement>('[aria-label^="Edit"]')?.focus();
    };
    const save = (): void => {
      if (!area.value.trim()) return;
      const text = area.value;
      close();
      if (text !== message.content) this.#wishes.edited(message, text);
    };
    const actions = element(
      "div",
      { class: "actions" },
      element("button", { type: "button", onclick: close }, "Cancel"),
      element("button", { type: "button", class: "primary", onclick: save }, message.role === "user" ? "Send" : "Save"),
    );
    this.#editor = element("div", { class: "editor" }, area, actions);
    this.#editor.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === area) {
        event.preventDefault();
        save();
      }
    });
    this.#body.replaceWith(this.#editor);
    area.focus();
  }

  /** As it was at the latest update of the foot, which is all that an editor needs. */
  get #place(): Place {
    const [version, versions] = (this.element.dataset["version"] ?? "0/1").split("/").map(Number);
    return { version: version ?? 0, versions: versions ?? 1, isLast: false, pace: null };
  }

  setVersion(version: number, versions: number): void {
    this.element.dataset["version"] = `${version}/${versions}`;
  }
}

function plain(text: string): HTMLElement {
  return element("p", { class: "plain" }, text);
}

function toolBody(message: Message): HTMLElement {
  return isJson(message.content) && /^\s*[[{]/.test(message.content) ? jsonBlock(message.content) : plain(message.content);
}

function waitingText(pace: Pace | null, message: Message): string | null {
  if (!pace || message.content || message.reasoning || message.calls?.length) return null;
  if (pace.retry_at_ms !== undefined) {
    return `The server is busy; asking again in ${Math.max(Math.ceil((pace.retry_at_ms - performance.now()) / 1000), 1)} s …`;
  }
  const waited_s = Math.floor((performance.now() - pace.began_ms) / 1000);
  return waited_s >= 2 ? `Reading … ${waited_s} s` : "Reading …";
}

const ENDS: Record<string, string> = {
  length: "cut off: the most tokens are reached",
  stopped: "stopped",
  content_filter: "withheld",
  edited: "edited by you",
};

function statsLine(message: Message, pace: Pace | null): HTMLElement {
  const stats: Stats = message.stats ?? {};
  const rate = pace ? pace.tokens_per_s : stats.decode_tokens_per_s;
  const tokens = pace ? pace.pieces : stats.output_tokens;
  const parts: [string, string][] = [];
  if (rate) parts.push([`${rate >= 100 ? rate.toFixed(0) : rate.toFixed(1)} tok/s`, "Speed of writing"]);
  if (tokens) parts.push([`${tokens} tokens`, stats.reasoning_tokens ? `Tokens written, ${stats.reasoning_tokens} of them in thought` : "Tokens written"]);
  if (stats.ttft_ms !== undefined) parts.push([`first after ${time(stats.ttft_ms)}`, "Time to the first token (TTFT)"]);
  if (stats.prompt_tokens) parts.push([`${stats.cached_tokens ?? 0} of ${stats.prompt_tokens} cached`, "Tokens of the prompt that the server knew already"]);
  const line = element("span", { class: "stats" });
  if (stats.history && !pace) line.append(sparkline(stats.history));
  for (const [text, tip] of parts) line.append(element("span", { title: tip }, text));
  const end = message.finish && !pace ? ENDS[message.finish] : undefined;
  if (end) line.append(element("span", { class: "end" }, end));
  return line;
}

function time(time_ms: number): string {
  return time_ms >= 10_000 ? `${(time_ms / 1000).toFixed(0)} s` : time_ms >= 1000 ? `${(time_ms / 1000).toFixed(1)} s` : `${time_ms.toFixed(0)} ms`;
}
