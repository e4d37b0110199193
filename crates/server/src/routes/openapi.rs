//! `GET /openapi.json`: what every endpoint takes and gives, for programs.

use axum::Json;
use serde_json::Value;

use crate::document::Sheet;

pub async fn openapi() -> Json<&'static Value> {
    Json(super::document())
}

pub fn sheet() -> Sheet {
    Sheet::new("This document.").gives_object(&["openapi", "info", "paths", "components"])
}
