import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** Where `npm run dev` finds a server to talk to. */
const SERVER = process.env["KAURI_URL"] ?? "http://127.0.0.1:8080";

/**
 * The program embeds files by fixed names and lets browsers keep them for ever, so what changes is the query behind each name:
 * a digest of the file.
 */
function digests(): Plugin {
  return {
    name: "kauri-digests",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") return;
      page.source = String(page.source).replace(/(["'])\/(assets\/[\w.-]+)\1/g, (whole, quote: string, name: string) => {
        const file = bundle[name];
        const content = file ? (file.type === "chunk" ? file.code : file.source) : readPublic(name);
        if (content === null) return whole;
        return `${quote}/${name}?v=${createHash("sha256").update(content).digest("hex").slice(0, 12)}${quote}`;
      });
    },
  };
}

/** The texts of the licences of what is bundled, for those who get the program. */
function licences(): Plugin {
  return {
    name: "kauri-licences",
    generateBundle() {
      const { dependencies } = JSON.parse(read("package.json") ?? "{}") as { dependencies: Record<string, string> };
      let text = "The chat page of kauri holds parts of these packages.\n";
      for (const [name, version] of Object.entries(dependencies)) {
        const licence = read(`node_modules/${name}/LICENSE`) ?? read(`node_modules/${name}/LICENSE.md`);
        if (licence === null) this.error(`${name} has no licence file`);
        text += `\n${"=".repeat(80)}\n${name} ${version}\n${"=".repeat(80)}\n\n${licence.trim()}\n`;
      }
      this.emitFile({ type: "asset", fileName: "assets/LICENSES.txt", source: text.replace(/[ \t]+$/gm, "") });
    },
  };
}

function read(path: string): string | null {
  const file = fileURLToPath(new URL(path, import.meta.url));
  return existsSync(file) ? readFileSync(file, "utf8") : null;
}

const readPublic = (name: string): string | null => read(`public/${name}`);

export default defineConfig({
  plugins: [digests(), licences()],
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: "assets/page.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/page[extname]",
      },
    },
  },
  server: {
    proxy: Object.fromEntries(["/v1", "/ready", "/health"].map((path) => [path, { target: SERVER, changeOrigin: true }])),
  },
});
