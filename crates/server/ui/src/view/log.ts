/** The messages of a conversation, one below the other. */

import type { Pace } from "../answer.ts";
import { element, icon } from "../dom.ts";
import { type Conversation, type Message, shown, siblings } from "../tree.ts";
import { MessageView, type Wishes } from "./message.ts";

/** Nearer to the end than this counts as at the end. */
const END_PX = 60;
const EXAMPLES = ["What is kauri?", "Write a haiku about trees", "Explain how a cache works, in a table"];

export interface LogWishes extends Wishes {
  ask(text: string): unknown;
}

export class Log {
  readonly element: HTMLElement;
  readonly #wishes: LogWishes;
  readonly #list = element("div", { class: "messages", role: "log", "aria-label": "Messages", "aria-live": "off" });
  readonly #scroller: HTMLElement;
  readonly #down: HTMLButtonElement;
  readonly #welcome: HTMLElement;
  #views = new Map<string, MessageView>();
  #running: { message: Message; version: number; versions: number; pace: Pace } | null = null;
  #follows = true;
  #drawing = 0;
  /** How long the latest drawing took: the longer, the rarer. */
  #cost_ms = 0;
  #drawn_ms = 0;

  constructor(wishes: LogWishes) {
    this.#wishes = wishes;
    this.#welcome = element(
      "div",
      { class: "welcome" },
      element("img", { src: "/assets/icon.svg", alt: "", width: 56, height: 56 }),
      element("h2", {}, "What would you like to know?"),
      element("p", { class: "hint" }, "The model runs on your own server. What you write goes nowhere else."),
      element("div", { class: "examples" }, ...EXAMPLES.map((text) => element("button", { type: "button", onclick: () => wishes.ask(text) }, text))),
    );
    this.#scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Conversation" }, this.#welcome, this.#list);
    this.#down = element("button", { type: "button", class: "down", hidden: true, "aria-label": "To the latest message", onclick: () => this.toEnd() }, icon("down"));
    this.element = element("div", { class: "log" }, this.#scroller, this.#down);
    this.#scroller.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
      this.#follows = scrollHeight - scrollTop - clientHeight < END_PX;
      this.#down.hidden = this.#follows;
    });
  }

  /** Forgets what was drawn: another conversation comes. */
  reset(): void {
    this.#views.clear();
    this.#running = null;
    this.#follows = true;
  }

  update(conversation: Conversation, running: { message: Message; pace: Pace } | null): void {
    const path = shown(conversation);
    this.#running = null;
    this.#welcome.hidden = path.length > 0;
    const elements = path.map((message, index) => {
      const view = this.#views.get(message.id) ?? new MessageView(message, this.#wishes);
      this.#views.set(message.id, view);
      const versions = siblings(conversation, message);
      const place = { version: versions.indexOf(message), versions: versions.length };
      const pace = running?.message === message ? running.pace : null;
      if (pace) this.#running = { message, ...place, pace };
      view.setVersion(place.version, place.versions);
      view.update({ ...place, isLast: index === path.length - 1, pace });
      return view.element;
    });
    this.#arrange(elements);
    if (this.#follows) this.toEnd();
  }

  /** The answer went on. */
  progress(pace: Pace): void {
    if (!this.#running) return;
    this.#running.pace = pace;
    if (this.#drawing) return;
    const wait_ms = Math.max(this.#drawn_ms + this.#cost_ms * 4 - performance.now(), 0);
    this.#drawing = window.setTimeout(() => requestAnimationFrame(() => this.#drawRunning()), wait_ms);
  }

  toEnd(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#follows = true;
    this.#down.hidden = true;
  }

  focusVersion(id: string, by: -1 | 1): void {
    const buttons = this.#views.get(id)?.element.querySelectorAll<HTMLButtonElement>(".versions button");
    const [before, after] = buttons ?? [];
    const wanted = by < 0 ? [before, after] : [after, before];
    wanted.find((button) => button && !button.disabled)?.focus();
  }

  #drawRunning(): void {
    this.#drawing = 0;
    const running = this.#running;
    if (!running) return;
    const began_ms = performance.now();
    const { message, version, versions, pace } = running;
    this.#views.get(message.id)?.update({ version, versions, isLast: true, pace });
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#drawn_ms = performance.now();
    this.#cost_ms = this.#drawn_ms - began_ms;
  }

  /** Puts elements in order and leaves those alone that are in their place, so that focus and selection stay. */
  #arrange(elements: HTMLElement[]): void {
    elements.forEach((wanted, index) => {
      const there = this.#list.children[index];
      if (there !== wanted) this.#list.insertBefore(wanted, there ?? null);
    });
    while (this.#list.children.length > elements.length) this.#list.lastElementChild?.remove();
  }
}
