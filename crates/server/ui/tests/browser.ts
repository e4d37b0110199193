/** Where the browser is: the one that Playwright downloaded, or the system's. */

import { existsSync } from "node:fs";
import { chromium } from "@playwright/test";

const PLACES = [process.env["CHROMIUM"] ?? "", chromium.executablePath(), "/usr/bin/chromium", "/usr/bin/google-chrome"];

export const browser = { path: PLACES.find((path) => path !== "" && existsSync(path)) };
