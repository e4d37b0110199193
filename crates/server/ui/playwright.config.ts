import { defineConfig } from "@playwright/test";
import { browser } from "./tests/browser.ts";

export default defineConfig({
  testDir: "tests",
  timeout: 60_000,
  expect: { timeout: 10_000 },
  workers: 1,
  // A machine that is busy with other work may miss a moment; what is wrong fails three times.
  retries: 2,
  forbidOnly: true,
  reporter: "list",
  use: {
    launchOptions: { executablePath: browser.path, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] },
    viewport: { width: 1200, height: 800 },
    actionTimeout: 10_000,
    trace: "off",
  },
});
