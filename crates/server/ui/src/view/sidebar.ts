/** The list of conversations, and the search in it. */

import { element, icon, iconButton } from "../dom.ts";
import type { Conversation } from "../tree.ts";

export interface SidebarWishes {
  open(id: string): void;
  begin(): void;
  more(id: string): void;
  close(): void;
}

export class Sidebar {
  readonly element: HTMLElement;
  readonly #wishes: SidebarWishes;
  readonly #search = element("input", { type: "search", placeholder: "Find a conversation", "aria-label": "Find a conversation", autocomplete: "off" });
  readonly #list = element("ul", { "aria-label": "Conversations" });
  readonly #none = element("p", { class: "hint" });
  #conversations: Conversation[] = [];
  #current = "";
  #running: ReadonlySet<string> = new Set();

  constructor(wishes: SidebarWishes) {
    this.#wishes = wishes;
    this.element = element(
      "nav",
      { class: "sidebar", "aria-label": "Conversations" },
      element(
        "div",
        { class: "sidebar-head" },
        element("span", { class: "brand" }, element("img", { src: "/assets/icon.svg", alt: "", width: 24, height: 24 }), "kauri"),
        iconButton("close", "Close the list", () => wishes.close(), { class: "icon narrow-only" }),
      ),
      element("button", { type: "button", class: "new", onclick: () => wishes.begin() }, icon("plus"), "New conversation"),
      this.#search,
      this.#list,
      this.#none,
    );
    this.#search.addEventListener("input", () => this.#draw());
    this.#search.addEventListener("keydown", (event) => this.#key(event));
    this.#list.addEventListener("keydown", (event) => this.#move(event));
  }

  update(conversations: Conversation[], current: string, running: ReadonlySet<string>): void {
    this.#conversations = conversations;
    this.#current = current;
    this.#running = running;
    this.#draw();
  }

  focusSearch(): void {
    this.#search.focus();
    this.#search.select();
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.isComposing) {
      const first = this.#found()[0];
      if (this.#search.value.trim() && first) this.#wishes.open(first.id);
      else this.#wishes.begin();
      this.#search.value = "";
      this.#draw();
    } else if (event.key === "Escape") {
      this.#search.value = "";
      this.#draw();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.#list.querySelector("button")?.focus();
    }
  }

  #move(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const buttons = [...this.#list.querySelectorAll<HTMLButtonElement>("button.open")];
    const at = buttons.findIndex((button) => button.parentElement?.contains(document.activeElement));
    const next = buttons[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) next.focus();
    else if (event.key === "ArrowUp") this.#search.focus();
  }

  #found(): Conversation[] {
    const words = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return this.#conversations;
    return this.#conversations.filter((conversation) => {
      const texts = [conversation.title, ...Object.values(conversation.messages).map((message) => message.content)];
      const text = texts.join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  #draw(): void {
    const found = this.#found();
    const focused = document.activeElement?.closest("li")?.dataset["id"];
    this.#list.replaceChildren(
      ...found.map((conversation) => {
        const title = conversation.title || "New conversation";
        const isCurrent = conversation.id === this.#current;
        return element(
          "li",
          { "data-id": conversation.id },
          element(
            "button",
            { type: "button", class: "open", "aria-current": isCurrent ? "page" : null, title, onclick: () => this.#wishes.open(conversation.id) },
            this.#running.has(conversation.id) && element("span", { class: "dot", role: "img", "aria-label": "being answered" }),
            title,
          ),
          iconButton("more", `Rename, export or delete: ${title}`, () => this.#wishes.more(conversation.id)),
        );
      }),
    );
    if (focused) this.#list.querySelector<HTMLElement>(`[data-id="${CSS.escape(focused)}"] .open`)?.focus();
    this.#none.textContent = found.length ? "" : this.#search.value ? "Nothing found; Enter begins a new conversation." : "What you talk about is kept in this browser only.";
  }
}
