/** The program under test: a real server with the model that is inside it, and a browser that looks at its page. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Locator, type Page, test as base, expect } from "@playwright/test";
import { browser } from "./browser.ts";

const PROGRAM = process.env["KAURI_BIN"] ?? "";
/** With `KAURI_PAGE=dist`, the page of this folder is looked at in place of the one in the program: for work on the page. */
export const FOLDER = process.env["KAURI_PAGE"] === "dist" ? fileURLToPath(new URL("../dist/", import.meta.url)) : null;
const KINDS: Record<string, string> = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

export const missing = !PROGRAM
  ? "KAURI_BIN does not say where the program is"
  : !existsSync(PROGRAM)
    ? `there is no ${PROGRAM}`
    : !browser.path
      ? "there is no Chromium: npx playwright install --with-deps chromium, or apt-get install chromium"
      : null;
if (missing) console.log(`skipped, all that needs the server and a browser: ${missing}`);

export class Server {
  url = "";
  #child: ChildProcess | null = null;
  readonly #options: string[];

  constructor(options: string[] = []) {
    this.#options = options;
  }

  /** The second time at the same address. */
  async start(): Promise<void> {
    const port = this.url ? new URL(this.url).port : "0";
    const child = spawn(PROGRAM, ["serve", "--port", port, ...this.#options], { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.url = await new Promise((resolve, reject) => {
      let said = "";
      const hear = (text: Buffer): void => {
        said += text.toString();
        const url = /listening on (http:\S+)\s/.exec(said)?.[1];
        if (url) resolve(url);
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("exit", (code) => reject(new Error(`kauri serve ended with ${code}: ${said}`)));
    });
  }

  /** At once, as when the machine loses its power. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}

/** A file of keys for `--api-key-file`, removed after `use`. */
export async function withKeys(keys: string, use: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "kauri-page-"));
  const path = join(folder, "keys.txt");
  writeFileSync(path, keys, { mode: 0o600 });
  try {
    await use(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Opens the page of a server. */
export async function visit(page: Page, server: Server): Promise<void> {
  if (FOLDER) {
    await page.route(/\/(assets\/[^?]*)?(\?.*)?$/, async (route) => {
      const { pathname, origin } = new URL(route.request().url());
      const file = join(FOLDER, pathname === "/" ? "index.html" : pathname);
      if (origin !== server.url || (pathname !== "/" && !pathname.startsWith("/assets/"))) return route.fallback();
      return route.fulfill({ body: readFileSync(file), contentType: KINDS[file.split(".").at(-1) ?? ""] ?? "" });
    });
  }
  await page.goto(server.url);
  await expect(page.getByRole("textbox", { name: "Message", exact: true })).toBeVisible();
}

/** A page of a fresh browser, on a server that all tests of a file share. Whatever the page does wrong unseen fails the test. */
export const test = base.extend<{ chat: Page }, { server: Server }>({
  server: [
    // Playwright wants a pattern here.
    // eslint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const server = new Server();
      if (!missing) await server.start();
      await use(server);
      await server.kill();
    },
    { scope: "worker" },
  ],
  chat: async ({ page, server }, use) => {
    const wrong: string[] = [];
    page.on("console", (message) => {
      // The browser itself tells of answers that are errors.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
    });
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("dialog", (dialog) => {
      wrong.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol.startsWith("http") && url.hostname !== "127.0.0.1") wrong.push(`a request to ${url.hostname}`);
    });
    await visit(page, server);
    await use(page);
    expect(wrong).toEqual([]);
  },
});

export { expect };

/** Sends a message. */
export async function say(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message", exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

export const messages = (page: Page): Locator => page.getByRole("article");
export const answers = (page: Page): Locator => page.locator("article[data-role=assistant]");

/** Waits until nothing is written any more. */
export async function settled(page: Page): Promise<void> {
  await expect(page.locator("article[aria-busy=true]")).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Send", exact: true })).toBeVisible();
}

/** Changes settings as a person would. */
export async function set(page: Page, settings: Record<string, string>): Promise<void> {
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  const drawer = page.getByRole("dialog", { name: "Settings" });
  for (const [label, value] of Object.entries(settings)) {
    const field = drawer.getByLabel(label, { exact: true });
    if ((await field.evaluate((element) => element.tagName)) === "SELECT") await field.selectOption({ label: value });
    else await field.fill(value);
  }
  await page.keyboard.press("Escape");
  await expect(drawer).toBeHidden();
}

/** Settings under which the model says a text and nothing else. */
export const saying = (text: string): Record<string, string> => ({
  "Answer as": "JSON that obeys a schema",
  Schema: JSON.stringify({ enum: [text] }),
});

/** Settings under which the model goes on for a while. */
export const LONG: Record<string, string> = {
  "Answer as": "JSON that obeys a schema",
  Schema: JSON.stringify({ type: "array", items: { enum: ["kauri"] }, minItems: 350, maxItems: 350 }),
};
