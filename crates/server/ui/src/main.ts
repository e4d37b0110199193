/** The page: what is on it, and what happens when. */

import "./style.css";
import { Page } from "./page.ts";

new Page(document.body).start();
