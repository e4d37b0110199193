/** The page as a whole: which conversation is shown, what is being answered, and what is kept. */

import { type Pace, answer } from "./answer.ts";
import { setKey } from "./client.ts";
import { announce, download, element, iconButton } from "./dom.ts";
import { BadSetting, request } from "./settings.ts";
import { Store, defaults } from "./store.ts";
import { type Conversation, type Message, add, choose, newConversation, openCalls, shown, siblings } from "./tree.ts";
import { Composer } from "./view/composer.ts";
import { conversationDialog, keyDialog } from "./view/dialogs.ts";
import { Log } from "./view/log.ts";
import { ModelPicker } from "./view/models.ts";
import { SettingsView } from "./view/settings.ts";
import { Sidebar } from "./view/sidebar.ts";
import { themeButton } from "./view/theme.ts";

/** What is being written is kept this often. */
const KEEP_MS = 1_000;

interface Running {
  message: Message;
  stop: AbortController;
  pace: Pace;
}

export class Page {
  readonly #store = new Store();
  readonly #root: HTMLElement;
  #conversations: Conversation[] = [];
  #current: Conversation = newConversation(defaults.read());
  readonly #running = new Map<string, Running>();
  /** What was typed and not sent, by conversation. */
  readonly #drafts = new Map<string, string>();
  /** Those that are to be kept soon. */
  readonly #unsaved = new Set<Conversation>();

  readonly #title = element("h1", {}, "kauri");
  readonly #notice = element("div", { class: "notice", role: "alert", hidden: true });
  readonly #models = new ModelPicker({ chosen: (name) => this.#chooseModel(name), refused: () => this.#askKey() });
  readonly #settings = new SettingsView({
    changed: () => this.#keepSoon(this.#current),
    asDefault: () => {
      defaults.write(this.#current.settings);
      announce("New conversations begin with these settings");
    },
    key: () => this.#askKey(),
    forgetKey: () => {
      setKey("");
      this.#settings.dialog.close();
      this.#models.refresh();
    },
  });
  readonly #sidebar = new Sidebar({
    open: (id) => void this.#open(id),
    begin: () => this.#begin(),
    more: (id) => this.#more(id),
    close: () => this.#showSidebar(false),
  });
  readonly #log = new Log({
    again: (message) => this.#again(message),
    edited: (message, text) => this.#edited(message, text),
    turn: (message, by) => this.#turn(message, by),
    results: (message, results) => this.#sendResults(message, results),
    key: () => this.#askKey(),
    ask: (text) => this.#send(text),
  });
  readonly #composer = new Composer({ send: (text) => this.#send(text), stop: () => this.#stop() });

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  start(): void {
    const header = element(
      "header",
      { class: "bar" },
      iconButton("menu", "Conversations", () => this.#showSidebar(this.#root.dataset["sidebar"] !== "shown")),
      this.#title,
      this.#models.element,
      themeButton(),
      iconButton("settings", "Settings", () => this.#settings.open(this.#current.settings)),
    );
    const main = element("main", {}, header, this.#notice, this.#log.element, this.#composer.element);
    const shade = element("div", { class: "shade", onclick: () => this.#showSidebar(false) });
    this.#root.append(this.#sidebar.element, shade, main, this.#settings.dialog);
    document.addEventListener("keydown", (event) => this.#key(event));
    window.addEventListener("pagehide", () => this.#keepNow());
    document.addEventListener("visibilitychange", () => document.hidden && this.#keepNow());
    setInterval(() => this.#keepNow(), KEEP_MS);
    setInterval(() => this.#tick(), 500);
    const narrow = matchMedia("(max-width: 820px)");
    narrow.addEventListener("change", () => this.#showSidebar(!narrow.matches));
    this.#showSidebar(!narrow.matches);
    this.#store.onchange = (id) => void this.#changedElsewhere(id);
    this.#models.refresh();
    void this.#restore();
    announce("");
  }

  async #restore(): Promise<void> {
    try {
      this.#conversations = await this.#store.list();
      void this.#store.trim();
    } catch {
      this.#tell("This browser keeps nothing for pages, so conversations last until this window is closed.");
    }
    const wanted = decodeURIComponent(location.hash.slice(1));
    const kept = this.#conversations.find((conversation) => conversation.id === wanted);
    this.#show(kept ?? this.#current);
    this.#focus();
  }

  // What is shown.

  #show(conversation: Conversation): void {
    this.#drafts.set(this.#current.id, this.#composer.text);
    this.#current = conversation;
    this.#composer.text = this.#drafts.get(conversation.id) ?? "";
    this.#models.show(conversation.settings.model);
    const isKept = this.#conversations.includes(conversation);
    history.replaceState(null, "", isKept ? `#${conversation.id}` : location.pathname);
    this.#log.reset();
    this.#draw();
    this.#log.toEnd();
  }

  #draw(): void {
    const conversation = this.#current;
    const running = this.#running.get(conversation.id);
    const title = conversation.title || "New conversation";
    this.#title.textContent = title;
    document.title = conversation.title ? `${title} – kauri` : "kauri";
    this.#log.update(conversation, running ? { message: running.message, pace: running.pace } : null);
    this.#composer.update(running !== undefined, openCalls(conversation) !== null);
    this.#drawSidebar();
  }

  #drawSidebar(): void {
    this.#sidebar.update(this.#conversations, this.#current.id, new Set(this.#running.keys()));
  }

  #tick(): void {
    const running = this.#running.get(this.#current.id);
    if (!running || running.pace.first_ms !== undefined) return;
    this.#models.watch(running.message.model ?? this.#current.settings.model);
    this.#log.progress(running.pace);
  }

  #showSidebar(isShown: boolean): void {
    this.#root.dataset["sidebar"] = isShown ? "shown" : "hidden";
    this.#sidebar.element.inert = !isShown;
  }

  #tell(text: string): void {
    this.#notice.textContent = text;
    this.#notice.hidden = text === "";
  }

  #isNarrow(): boolean {
    return matchMedia("(max-width: 820px)").matches;
  }

  /** Ready to write; where fingers point, that would raise a keyboard over half of the page. */
  #focus(): void {
    if (!matchMedia("(pointer: coarse)").matches) this.#composer.focus();
  }

  // What a person does.

  #key(event: KeyboardEvent): void {
    const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (isCommand && event.key.toLowerCase() === "k") {
      event.preventDefault();
      this.#showSidebar(true);
      this.#sidebar.focusSearch();
    } else if (isCommand && event.key === ",") {
      event.preventDefault();
      if (!this.#settings.dialog.open) this.#settings.open(this.#current.settings);
    } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (this.#isNarrow() && this.#root.dataset["sidebar"] === "shown") this.#showSidebar(false);
      else this.#stop();
    }
  }

  #begin(): void {
    const settings = { ...defaults.read(), model: this.#current.settings.model };
    this.#show(newConversation(settings));
    if (this.#isNarrow()) this.#showSidebar(false);
    this.#focus();
  }

  async #open(id: string): Promise<void> {
    const conversation = this.#conversations.find((conversation) => conversation.id === id);
    if (!conversation) return;
    this.#show(conversation);
    if (this.#isNarrow()) this.#showSidebar(false);
    this.#focus();
  }

  #more(id: string): void {
    const conversation = this.#conversations.find((conversation) => conversation.id === id);
    if (!conversation) return;
    conversationDialog(conversation, {
      rename: (conversation, title) => {
        conversation.title = title;
        conversation.named = true;
        this.#keep(conversation);
        this.#draw();
      },
      remove: (conversation) => void this.#remove(conversation),
      save: (conversation) => {
        const name = conversation.title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";
        download(`${name}.json`, "application/json", JSON.stringify(conversation, null, 2) + "\n");
      },
    });
  }

  async #remove(conversation: Conversation): Promise<void> {
    this.#running.get(conversation.id)?.stop.abort();
    this.#unsaved.delete(conversation);
    this.#conversations = this.#conversations.filter((other) => other !== conversation);
    if (this.#current === conversation) this.#begin();
    this.#drawSidebar();
    announce("Conversation deleted");
    await this.#store.remove(conversation.id).catch(() => {});
  }

  #chooseModel(name: string): void {
    this.#current.settings.model = name;
    defaults.write({ ...defaults.read(), model: name });
    this.#keep(this.#current);
  }

  #askKey(): void {
    keyDialog((key) => {
      setKey(key);
      this.#models.refresh();
      const last = shown(this.#current).at(-1);
      if (last?.problem?.kind === "key") this.#again(last);
    });
  }

  // What becomes of it.

  #send(text: string): boolean {
    if (!text.trim() || this.#running.has(this.#current.id)) return false;
    const last = shown(this.#current).at(-1);
    const said = { role: "user" as const, content: text };
    return this.#ask(() => add(this.#current, last?.id ?? null, said), last?.id ?? null);
  }

  #edited(message: Message, text: string): void {
    if (message.role === "user") {
      this.#ask(() => add(this.#current, message.parent, { role: "user", content: text }), message.parent);
      return;
    }
    const { reasoning, calls, model } = message;
    const kept = { ...(reasoning && { reasoning }), ...(calls && { calls }), ...(model && { model }) };
    add(this.#current, message.parent, { role: "assistant", content: text, finish: "edited", ...kept });
    this.#keep(this.#current);
    this.#draw();
  }

  #again(message: Message): void {
    this.#ask(() => message.parent, message.parent);
  }

  #turn(message: Message, by: -1 | 1): void {
    const versions = siblings(this.#current, message);
    const next = versions[versions.indexOf(message) + by];
    if (!next) return;
    choose(this.#current, next);
    this.#keep(this.#current);
    this.#draw();
    this.#log.focusVersion(next.id, by);
  }

  #sendResults(message: Message, results: string[]): void {
    this.#ask(() => {
      let parent = message;
      (message.calls ?? []).forEach((call, index) => {
        const result = { role: "tool" as const, content: results[index] ?? "", call_id: call.id, name: call.name };
        parent = add(this.#current, parent.id, result);
      });
      return parent;
    }, message.id);
  }

  /** Adds what is said, and the answer to it. What cannot be asked at all is found before anything is added. */
  #ask(say: () => Message | string | null, after: string | null): boolean {
    const conversation = this.#current;
    if (this.#running.has(conversation.id)) return false;
    try {
      request(conversation, after);
    } catch (error) {
      if (!(error instanceof BadSetting)) throw error;
      this.#settings.openAt(conversation.settings, error.field);
      announce(`${error.field}: ${error.message}`);
      this.#tell(`${error.field.replaceAll("_", " ")}: ${error.message}`);
      return false;
    }
    this.#tell("");
    const said = say();
    const parent = typeof said === "string" || said === null ? said : said.id;
    if (!this.#conversations.includes(conversation)) {
      history.replaceState(null, "", `#${conversation.id}`);
    }
    this.#conversations = [conversation, ...this.#conversations.filter((other) => other !== conversation)];
    const model = conversation.settings.model || this.#models.only;
    const message = add(conversation, parent, { role: "assistant", content: "", ...(model && { model }) });
    void this.#run(conversation, message, request(conversation, parent));
    return true;
  }

  async #run(conversation: Conversation, message: Message, body: unknown): Promise<void> {
    const stop = new AbortController();
    const running: Running = { message, stop, pace: { began_ms: performance.now(), pieces: 0, tokens_per_s: 0 } };
    this.#running.set(conversation.id, running);
    this.#keep(conversation);
    this.#draw();
    this.#log.toEnd();
    // The button that asked may be gone.
    if (document.activeElement === document.body) this.#focus();
    announce("Asking");
    await answer(message, body, stop.signal, (pace) => {
      running.pace = pace;
      this.#keepSoon(conversation);
      if (this.#current === conversation) this.#log.progress(pace);
    });
    this.#running.delete(conversation.id);
    conversation.updated_ms = Date.now();
    this.#keep(conversation);
    this.#models.settled();
    if (message.finish !== "failed") announce(ending(message));
    if (message.problem?.kind === "key") this.#askKey();
    if (this.#current === conversation) this.#draw();
    else this.#drawSidebar();
  }

  #stop(): void {
    this.#running.get(this.#current.id)?.stop.abort();
  }

  // What is kept.

  #keep(conversation: Conversation): void {
    this.#keepSoon(conversation);
    this.#keepNow();
  }

  /** For what changes many times a second. */
  #keepSoon(conversation: Conversation): void {
    if (Object.keys(conversation.messages).length) this.#unsaved.add(conversation);
  }

  #keepNow(): void {
    for (const conversation of this.#unsaved) {
      this.#unsaved.delete(conversation);
      this.#store.put(conversation).catch((error: unknown) => {
        const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
        this.#tell(
          isFull
            ? "This browser has no more room for conversations. Delete some, or export this one before you close the window."
            : "This conversation could not be kept in this browser. Export it before you close the window.",
        );
      });
    }
  }

  async #changedElsewhere(id: string): Promise<void> {
    if (this.#running.has(id)) return;
    const fresh = await this.#store.get(id).catch(() => null);
    this.#conversations = this.#conversations.filter((conversation) => conversation.id !== id);
    if (fresh) this.#conversations = [fresh, ...this.#conversations].sort((a, b) => b.updated_ms - a.updated_ms);
    if (fresh && this.#current.id === id) {
      this.#current = fresh;
      this.#log.reset();
      this.#draw();
    } else this.#drawSidebar();
  }
}

function ending(message: Message): string {
  if (message.finish === "stopped") return "Stopped";
  if (message.calls?.length) return `The model calls ${message.calls.map((call) => call.name).join(" and ")}`;
  return "The answer is complete";
}
