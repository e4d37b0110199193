/** Code in colours. The highlighter's tree is made into elements here; the HTML that it could write is never used. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = { bash, c, diff, go, javascript, json, python, rust, sql, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
// Near enough to be read by their neighbours' rules.
hljs.registerAliases(["ts", "tsx", "typescript"], { languageName: "javascript" });
hljs.registerAliases(["cpp", "c++", "cc", "hpp", "cuda", "cu"], { languageName: "c" });

/** Longer code stays plain: colours are not worth a page that hangs. */
const CHARS_MAX = 40_000;

interface Branch {
  scope?: string;
  children: (string | Branch)[];
}

/** Puts `code` into `target`, in colours where the language is known. */
export function highlight(target: HTMLElement, code: string, language: string): void {
  if (code.length <= CHARS_MAX && hljs.getLanguage(language)) {
    try {
      const { _emitter } = hljs.highlight(code, { language, ignoreIllegals: true });
      const { rootNode } = _emitter as unknown as { rootNode: Branch };
      const fragment = document.createDocumentFragment();
      grow(fragment, rootNode.children);
      target.replaceChildren(fragment);
      return;
    } catch {
      // Plain, then.
    }
  }
  target.textContent = code;
}

function grow(parent: Node, children: Branch["children"]): void {
  for (const child of children) {
    if (typeof child === "string") {
      parent.appendChild(document.createTextNode(child));
      continue;
    }
    const span = document.createElement("span");
    const scope = child.scope?.split(".")[0];
    if (scope && /^[a-z_-]+$/.test(scope)) span.className = `code-${scope}`;
    grow(span, child.children);
    parent.appendChild(span);
  }
}
