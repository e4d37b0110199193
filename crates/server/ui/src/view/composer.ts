/** Where a person writes. */

import { element, icon } from "../dom.ts";

export interface ComposerWishes {
  /** Whether it was sent. */
  send(text: string): boolean;
  stop(): void;
}

export class Composer {
  readonly element: HTMLElement;
  readonly #wishes: ComposerWishes;
  readonly #area = element("textarea", { rows: 1, placeholder: "Ask something", "aria-label": "Message", enterkeyhint: "send" });
  readonly #send = element("button", { type: "submit", class: "primary round", "aria-label": "Send", title: "Send (Enter)" }, icon("send"));
  readonly #stop = element("button", { type: "button", class: "primary round", "aria-label": "Stop", title: "Stop (Esc)", hidden: true }, icon("stop"));
  #isRunning = false;

  constructor(wishes: ComposerWishes) {
    this.#wishes = wishes;
    const form = element("form", { class: "composer", "aria-label": "Write a message" }, this.#area, this.#send, this.#stop);
    this.element = element("div", { class: "composer-place" }, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => {
      wishes.stop();
      this.focus();
    });
    this.#area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#area.addEventListener("input", () => this.#fit());
  }

  get text(): string {
    return this.#area.value;
  }

  set text(text: string) {
    this.#area.value = text;
    this.#fit();
  }

  focus(): void {
    this.#area.focus({ preventScroll: true });
  }

  update(isRunning: boolean, awaitsResults: boolean): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.#isRunning = isRunning;
    this.#send.hidden = isRunning;
    this.#stop.hidden = !isRunning;
    this.#area.placeholder = awaitsResults ? "Give the tool’s result above, or write on" : "Ask something";
    if (hadFocus && document.activeElement !== this.#area) this.focus();
  }

  #submit(): void {
    if (this.#isRunning || !this.#area.value.trim()) return;
    const { text } = this;
    this.text = "";
    if (!this.#wishes.send(text)) this.text = text;
  }

  #fit(): void {
    this.#area.style.height = "auto";
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }
}
