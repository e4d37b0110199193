/** Making elements. Text only ever becomes text here: nothing in this program turns a string into HTML. */

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** An element; `onclick` and its kind are listeners, `false` and `null` leave an attribute out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value as unknown as EventListener);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
}

/** A button that is an icon; its label is read out and shown as a tip. */
export function iconButton(name: IconName, label: string, onclick: () => void, attributes: Record<string, Value> = {}): HTMLButtonElement {
  return element("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

const ICONS = {
  copy: "M8 8h11v12H8zM16 8V4H5v12h3",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  left: "M14 6l-6 6 6 6",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  moon: "M19 14a8 8 0 0 1-9-10 8 8 0 1 0 9 10z",
  plus: "M12 5v14M5 12h14",
  redo: "M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5",
  right: "M10 6l6 6-6 6",
  send: "M12 19V5M6 11l6-6 6 6",
  settings: "M4 8h9M19 8h1M4 16h2M12 16h8M13 5v6M19 5v6M6 13v6M12 13v6M13 5h6v6h-6zM6 13h6v6H6z",
  stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  auto: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16zM12 4v16M12 8h6M12 12h8M12 16h6",
  close: "M6 6l12 12M18 6L6 18",
} as const;
export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGSVGElement {
  const svg = svgElement("svg", { viewBox: "0 0 24 24", width: "20", height: "20", "aria-hidden": "true", class: "glyph" });
  svg.appendChild(svgElement("path", { d: ICONS[name] }));
  return svg;
}

/** Numbers as a line, from first to last, scaled to the greatest. */
export function sparkline(values: number[]): SVGSVGElement {
  const [width, height] = [64, 16];
  const greatest = Math.max(...values, 1e-9);
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 1 - (value / greatest) * (height - 2)).toFixed(1)}`);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width: `${width}`, height: `${height}`, "aria-hidden": "true", class: "sparkline" });
  svg.appendChild(svgElement("polyline", { points: points.join(" ") }));
  return svg;
}

function svgElement<Tag extends keyof SVGElementTagNameMap>(tag: Tag, attributes: Record<string, string>): SVGElementTagNameMap[Tag] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Puts text on the clipboard, also where the page did not come over a safe connection. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    const focused = document.activeElement;
    document.body.appendChild(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

/** A button that copies what `text` returns, and says so. */
export function copyButton(label: string, text: () => string, attributes: Record<string, Value> = {}): HTMLButtonElement {
  const button = element("button", { type: "button", class: "copy", "aria-label": label, title: label, ...attributes }, icon("copy"));
  button.addEventListener("click", async () => {
    const done = await copyText(text());
    announce(done ? "Copied" : "The browser did not let the page copy");
    button.dataset["done"] = done ? "yes" : "no";
    setTimeout(() => delete button.dataset["done"], 1500);
  });
  return button;
}

let voice: HTMLElement | null = null;

/** Says something to those who listen to the page instead of looking at it. */
export function announce(text: string): void {
  if (!voice) {
    voice = element("div", { role: "status", class: "unseen", "aria-live": "polite" });
    document.body.appendChild(voice);
  }
  voice.textContent = text;
}

export function download(name: string, kind: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
