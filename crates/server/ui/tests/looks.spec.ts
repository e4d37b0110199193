/** How the page looks and sounds: checked by axe, and pictured for the manual. */

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { FOLDER, answers, expect, missing, say, set, settled, test } from "./kauri.ts";

test.skip(missing !== null, missing ?? "");

const PICTURES = process.env["KAURI_PICTURES"] ? fileURLToPath(new URL("../../../../docs/src/images/", import.meta.url)) : null;

const RICH = `A **kauri** is a tree of New Zealand, and an engine [written in Rust](https://www.rust-lang.org).

| Tree | Height |
|---|--:|
| Kauri | 50 m |
| Rimu | 35 m |

\`\`\`rust
/// The height of a tree, in metres.
fn height_m(age_years: f64) -> f64 {
    50.0 * (1.0 - (-age_years / 400.0).exp()) // it takes its time
}
\`\`\`

1. Ask.
2. Read \`code\` in colours.
`;

/** A conversation with something of everything. */
async function fill(page: Page): Promise<void> {
  await set(page, { Temperature: "0" });
  await say(page, "Tell me about kauri, with a table and some code");
  await settled(page);
  await answers(page).getByRole("button", { name: "Edit answer" }).click();
  await page.getByRole("textbox", { name: "New text of the message" }).fill(RICH);
  await page.getByRole("button", { name: "Save" }).click();
  const parameters = { type: "object", properties: { city: { enum: ["Hobart"] } }, required: ["city"], additionalProperties: false };
  await set(page, { "Most tokens": "40", Tools: JSON.stringify([{ name: "weather", parameters }]), Calls: "Always" });
  await say(page, "And the weather?");
  await settled(page);
  await set(page, { "Top p": "7" });
  await say(page, "One more");
  await expect(page.locator(".problem")).toBeVisible();
}

async function listen(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = (all: typeof violations): string[] => all.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
  expect(told(grave)).toEqual([]);
  const light = violations.filter(({ impact }) => impact !== "serious" && impact !== "critical");
  if (light.length) console.log(told(light).join("\n").slice(0, 2_000));
}

for (const colours of ["light", "dark"] as const) {
  for (const [device, viewport] of [["desk", { width: 1200, height: 800 }], ["phone", { width: 390, height: 800 }]] as const) {
    test(`axe finds nothing grave: ${colours}, ${device}`, async ({ chat }) => {
      await chat.emulateMedia({ colorScheme: colours, reducedMotion: "reduce" });
      await chat.setViewportSize(viewport);
      await listen(chat);
      await fill(chat);
      await listen(chat);
      await chat.getByRole("button", { name: "Settings", exact: true }).click();
      await listen(chat);
      await chat.keyboard.press("Escape");
      if (device === "phone") await chat.getByRole("button", { name: "Conversations", exact: true }).click();
      await chat.getByRole("button", { name: /^Rename, export or delete/ }).click();
      await listen(chat);
    });
  }
}

test("the program sends the page with its policy", async ({ chat, server }) => {
  test.skip(FOLDER !== null, "the page is not the program's");
  const headers = (await chat.request.get(server.url)).headers();
  const policy = headers["content-security-policy"] ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain("unsafe");
  expect(headers["x-content-type-options"]).toBe("nosniff");
  const script = await chat.locator("script").getAttribute("src");
  const { "cache-control": kept, "content-type": kind } = (await chat.request.get(`${server.url}${script}`)).headers();
  expect([kept, kind]).toEqual(["public, max-age=31536000, immutable", "text/javascript; charset=utf-8"]);
});

test("the colours follow the system until one is chosen", async ({ chat }) => {
  const paper = (): Promise<string> => chat.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await chat.emulateMedia({ colorScheme: "light" });
  const light = await paper();
  await chat.emulateMedia({ colorScheme: "dark" });
  const dark = await paper();
  expect(light).not.toBe(dark);
  await chat.getByRole("button", { name: "Colours: as the system" }).click();
  expect(await paper()).toBe(light);
  await chat.reload();
  await expect(chat.getByRole("button", { name: "Colours: light" })).toBeVisible();
  expect(await paper()).toBe(light);
  await chat.getByRole("button", { name: "Colours: light" }).click();
  await chat.emulateMedia({ colorScheme: "light" });
  expect(await paper()).toBe(dark);
});

test("on a phone nothing is cut off, and the list comes and goes", async ({ chat }) => {
  await chat.setViewportSize({ width: 360, height: 640 });
  await fill(chat);
  const width = await chat.evaluate(() => [document.documentElement.scrollWidth, document.querySelector(".scroller")?.scrollWidth]);
  expect(Math.max(...width.map((value) => value ?? 0))).toBeLessThanOrEqual(360);
  const list = chat.getByRole("navigation", { name: "Conversations" });
  await expect(list).toBeHidden();
  await chat.getByRole("button", { name: "Conversations", exact: true }).click();
  await expect(list).toBeVisible();
  await list.getByRole("button", { name: "New conversation" }).click();
  await expect(list).toBeHidden();
});

test("what happens is said to those who listen", async ({ chat }) => {
  await say(chat, "What is kauri?");
  await expect(chat.getByRole("status").filter({ hasText: "The answer is complete" })).toHaveCount(1);
  await expect(chat.getByRole("textbox", { name: "Message", exact: true })).toBeFocused();
  await answers(chat).getByRole("button", { name: "Answer again" }).press("Enter");
  await settled(chat);
  await expect(chat.getByRole("textbox", { name: "Message", exact: true })).toBeFocused();
});

test("pictures for the manual", async ({ chat }) => {
  test.skip(!PICTURES, "KAURI_PICTURES=1 renews them");
  mkdirSync(PICTURES ?? "", { recursive: true });
  await chat.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await chat.setViewportSize({ width: 1000, height: 700 });
  await set(chat, { Temperature: "0" });
  await say(chat, "What is kauri?");
  await settled(chat);
  await say(chat, "Show me how tall it grows, with a table and some code");
  await settled(chat);
  await answers(chat).last().getByRole("button", { name: "Edit answer" }).click();
  await chat.getByRole("textbox", { name: "New text of the message" }).fill(RICH);
  await chat.getByRole("button", { name: "Save" }).click();
  await say(chat, "Write a long story");
  await settled(chat);
  await chat.locator(".scroller").evaluate((scroller) => scroller.scrollTo(0, 300));
  await chat.locator(":focus").evaluate((focused) => (focused as HTMLElement).blur());
  await chat.screenshot({ path: `${PICTURES}page-light.png` });
  await chat.emulateMedia({ colorScheme: "dark" });
  await chat.screenshot({ path: `${PICTURES}page-dark.png` });
  await chat.emulateMedia({ colorScheme: "light" });
  await chat.setViewportSize({ width: 390, height: 780 });
  await chat.locator(".scroller").evaluate((scroller) => scroller.scrollTo(0, 330));
  await chat.screenshot({ path: `${PICTURES}page-phone.png` });
});
