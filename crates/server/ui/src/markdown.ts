/**
 * Markdown to elements. What a model writes is hostile: tags are shown as text, pictures as links, and links lead only where
 * `SCHEMES` says.
 */

import { Lexer, type Token, type Tokens } from "marked";
import { type Child, append, copyButton, element } from "./dom.ts";
import { highlight } from "./highlight.ts";

const SCHEMES = ["http:", "https:", "mailto:"];
/** Text beyond this is shown as it is. */
const CHARS_MAX = 400_000;
const DEPTH_MAX = 32;

/** A text that grows: what is already shown stays, so that selections and buttons live on. */
export class Markdown {
  readonly element = element("div", { class: "markdown" });
  #shown: { key: string; node: HTMLElement }[] = [];

  update(text: string): void {
    const tokens = lexed(text);
    let same = 0;
    while (same < tokens.length && this.#shown[same]?.key === keyOf(tokens[same]!)) same += 1;
    const last = this.#shown[same];
    const next = tokens[same];
    if (last && next?.type === "code" && last.node.dataset["kind"] === "code" && same === this.#shown.length - 1) {
      // The block of code that is being written grows in place.
      fillCode(last.node, next as Tokens.Code);
      last.key = keyOf(next);
      same += 1;
    }
    for (const { node } of this.#shown.splice(same)) node.remove();
    for (const token of tokens.slice(same)) {
      const node = block(token, 0);
      this.#shown.push({ key: keyOf(token), node });
      this.element.appendChild(node);
    }
  }
}

/** A value as JSON that can be read, or the text itself where it is none. */
export function jsonBlock(text: string): HTMLElement {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // It is still being written.
  }
  return codeBlock({ type: "code", raw: shown, text: shown, lang: "json" });
}

const keyOf = (token: Token): string => `${token.type}\n${token.raw}`;

function lexed(text: string): Token[] {
  if (text.length <= CHARS_MAX) {
    try {
      return new Lexer({ gfm: true, breaks: true }).lex(text).filter((token) => token.type !== "space" && token.type !== "def");
    } catch {
      // Nested beyond reason.
    }
  }
  return [{ type: "html", raw: text, text }];
}

function block(token: Token, depth: number): HTMLElement {
  if (depth > DEPTH_MAX) return element("p", { class: "plain" }, token.raw);
  switch (token.type) {
    case "heading":
      // The page has its own headings above these.
      return element(`h${Math.min((token as Tokens.Heading).depth + 2, 6)}` as "h3", {}, inline(token, depth));
    case "paragraph":
    case "text":
      return element("p", {}, inline(token, depth));
    case "code":
      return codeBlock(token as Tokens.Code);
    case "blockquote":
      return element("blockquote", {}, ...blocks((token as Tokens.Blockquote).tokens, depth));
    case "list":
      return list(token as Tokens.List, depth);
    case "table":
      return table(token as Tokens.Table, depth);
    case "hr":
      return element("hr");
    default:
      return element("p", { class: "plain" }, token.raw.trimEnd());
  }
}

const blocks = (tokens: Token[], depth: number): HTMLElement[] =>
  tokens.filter((token) => token.type !== "space" && token.type !== "def").map((token) => block(token, depth + 1));

function list(token: Tokens.List, depth: number): HTMLElement {
  const items = token.items.map((item) => {
    const parts: Child[] = item.tokens.map((part) => {
      if (part.type === "checkbox") return checkbox(Boolean((part as Tokens.Checkbox).checked));
      if (part.type === "space") return null;
      return part.type === "text" ? inline(part, depth + 1) : block(part, depth + 1);
    });
    return element("li", { class: item.task ? "task" : null }, ...parts);
  });
  if (!token.ordered) return element("ul", {}, ...items);
  return element("ol", { start: Number(token.start) || 0 }, ...items);
}

function checkbox(checked: boolean): HTMLElement {
  return element("span", { role: "img", "aria-label": checked ? "done" : "to do" }, checked ? "☑ " : "☐ ");
}

function table(token: Tokens.Table, depth: number): HTMLElement {
  const row = (tag: "th" | "td", cells: Tokens.TableCell[]): HTMLElement =>
    element("tr", {}, ...cells.map((cell) => element(tag, { class: cell.align ? `align-${cell.align}` : null }, inlines(cell.tokens, depth + 1))));
  const head = element("thead", {}, row("th", token.header));
  const body = element("tbody", {}, ...token.rows.map((cells) => row("td", cells)));
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, element("table", {}, head, body));
}

function codeBlock(token: Tokens.Code): HTMLElement {
  const code = element("code");
  const copy = copyButton("Copy code", () => code.textContent ?? "");
  const head = element("div", { class: "code-head" }, element("span"), copy);
  const made = element("div", { class: "code", "data-kind": "code" }, head, element("pre", { tabindex: "0" }, code));
  fillCode(made, token);
  return made;
}

function fillCode(made: HTMLElement, token: Tokens.Code): void {
  const language = (token.lang ?? "").trim().split(/\s/, 1)[0]?.toLowerCase().slice(0, 30) ?? "";
  const name = made.querySelector("span");
  const code = made.querySelector("code");
  if (name) name.textContent = language || "text";
  if (code) highlight(code, token.text, language);
}

/** The inline parts of a token that may have them. */
function inline(token: Token, depth: number): DocumentFragment {
  const { tokens } = token as { tokens?: Token[] };
  if (tokens) return inlines(tokens, depth + 1);
  return fragment([unescaped("text" in token && typeof token.text === "string" ? token.text : token.raw)]);
}

function inlines(tokens: Token[], depth: number): DocumentFragment {
  if (depth > DEPTH_MAX) return fragment([tokens.map((token) => token.raw).join("")]);
  return fragment(tokens.map((token) => span(token, depth)));
}

function span(token: Token, depth: number): Child {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return element(token.type, {}, inline(token, depth));
    case "codespan":
      return element("code", {}, (token as Tokens.Codespan).text);
    case "br":
      return element("br");
    case "link":
      return link((token as Tokens.Link).href, inline(token, depth));
    case "image":
      return link((token as Tokens.Image).href, fragment([`[picture: ${(token as Tokens.Image).text || "without a name"}]`]));
    case "text":
      return inline(token, depth);
    case "escape":
      return (token as Tokens.Escape).text;
    default:
      return token.raw;
  }
}

/** Where a link leads is shown before it is followed; one that would run something is only text. */
function link(href: string, content: DocumentFragment): Child {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return content;
  }
  if (!SCHEMES.includes(url.protocol)) return content;
  return element("a", { href: url.href, title: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, content);
}

function fragment(children: Child[]): DocumentFragment {
  const made = document.createDocumentFragment();
  append(made, children);
  return made;
}

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Markdown lets characters be written as HTML does. */
function unescaped(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]{2,4}));/g, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name) return NAMED[name] ?? whole;
    const point = decimal ? Number(decimal) : parseInt(hex ?? "", 16);
    return point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point < 0xe000) ? String.fromCodePoint(point) : "\ufffd";
  });
}
