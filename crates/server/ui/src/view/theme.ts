/** Light, dark, or as the system has it. */

import { type IconName, announce, element, icon } from "../dom.ts";
import { type Theme, theme } from "../store.ts";

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const ICONS: Record<Theme, IconName> = { auto: "auto", light: "sun", dark: "moon" };
const NAMES: Record<Theme, string> = { auto: "as the system", light: "light", dark: "dark" };

export function themeButton(): HTMLElement {
  const button = element("button", { type: "button", class: "icon" });
  const show = (chosen: Theme): void => {
    document.documentElement.dataset["theme"] = chosen;
    const label = `Colours: ${NAMES[chosen]}`;
    button.setAttribute("aria-label", label);
    button.title = label;
    button.replaceChildren(icon(ICONS[chosen]));
  };
  let chosen = theme.read();
  show(chosen);
  button.addEventListener("click", () => {
    chosen = NEXT[chosen];
    theme.write(chosen);
    show(chosen);
    announce(`Colours: ${NAMES[chosen]}`);
  });
  return button;
}
