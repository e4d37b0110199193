/** The small dialogs: a conversation's name, and the key that a server asks for. */

import { element } from "../dom.ts";
import type { Conversation } from "../tree.ts";

export interface ConversationWishes {
  rename(conversation: Conversation, title: string): void;
  remove(conversation: Conversation): void;
  save(conversation: Conversation): void;
}

/** Rename, export, delete. */
export function conversationDialog(conversation: Conversation, wishes: ConversationWishes): void {
  const name = element("input", { type: "text", value: conversation.title, maxlength: 200, autocomplete: "off" });
  let isSure = false;
  const remove = element("button", { type: "button", class: "danger" }, "Delete");
  const { dialog, close } = modal(
    "Conversation",
    element("label", {}, element("span", {}, "Name"), name),
    element(
      "div",
      { class: "actions" },
      remove,
      element("button", { type: "button", onclick: () => (wishes.save(conversation), close()) }, "Export"),
      element("button", { type: "submit", class: "primary" }, "Save name"),
    ),
  );
  remove.addEventListener("click", () => {
    if (isSure) {
      close();
      wishes.remove(conversation);
    }
    isSure = true;
    remove.textContent = "Really delete";
  });
  dialog.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    if (name.value.trim()) wishes.rename(conversation, name.value.trim());
    close();
  });
  name.select();
}

/** Asks for a key; what comes is a key or nothing. */
export function keyDialog(given: (key: string) => void): void {
  if (document.querySelector("dialog[open] input[type=password]")) return;
  const key = element("input", { type: "password", autocomplete: "off", required: true });
  const { dialog, close } = modal(
    "The server asks for a key",
    element("p", { class: "hint" }, "Whoever runs the server has it. This browser keeps it until the window is closed, and sends it to this server only."),
    element("label", {}, element("span", {}, "Key"), key),
    element(
      "div",
      { class: "actions" },
      element("button", { type: "button", onclick: () => close() }, "Not now"),
      element("button", { type: "submit", class: "primary" }, "Use this key"),
    ),
  );
  dialog.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    close();
    given(key.value.trim());
  });
}

let dialogs = 0;

function modal(title: string, ...children: HTMLElement[]): { dialog: HTMLDialogElement; close: () => void } {
  const id = `dialog-${(dialogs += 1)}`;
  const dialog = element("dialog", { class: "modal", "aria-labelledby": id }, element("form", {}, element("h2", { id }, title), ...children));
  document.body.appendChild(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.showModal();
  return { dialog, close: () => dialog.close() };
}
