//! The paths and their answers.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use super::Control;
use super::dump::ConfigDump;
use super::explain::Question;
use crate::metrics;
use crate::runtime::clock;
use crate::runtime::reload::Refused;

type Shared = State<Arc<Control>>;

pub fn admin(control: Arc<Control>) -> Router {
    Router::new()
        .route("/config_dump", get(config_dump))
        .route("/explain", get(explain))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/reload", post(reload))
        .route("/quitquitquit", post(quit))
        .fallback(|| async {
            not_found(
                "GET /config_dump, GET /explain?backend=NAME, GET /healthz, POST /reload, POST /quitquitquit",
            )
        })
        .with_state(control)
}

pub fn metrics(control: Arc<Control>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .fallback(|| async { not_found("GET /metrics") })
        .with_state(control)
}

pub fn readiness(control: Arc<Control>) -> Router {
    Router::new()
        .route("/healthz/ready", get(is_ready))
        .fallback(|| async { not_found("GET /healthz/ready") })
        .with_state(control)
}

async fn config_dump(State(control): Shared) -> impl IntoResponse {
    let dump = ConfigDump::of(&control.observed, clock::now());
    json(&dump)
}

async fn explain(State(control): Shared, uri: Uri) -> impl IntoResponse {
    let question = match Question::parse(uri.query().unwrap_or_default()) {
        Ok(question) => question,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
    };
    match super::explain::explain(&question, &control.observed).await {
        Ok(explanation) => json(&explanation),
        Err(problem) => (StatusCode::NOT_FOUND, problem + "\n").into_response(),
    }
}

fn json(body: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(body) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// 200 with what changed; else everything that is wrong. As text, or as JSON for whoever accepts that.
async fn reload(State(control): Shared, request: HeaderMap) -> impl IntoResponse {
    let Some(outcome) = control.reloads.reload().await else {
        let refusal = (StatusCode::SERVICE_UNAVAILABLE, "starting or draining\n");
        return refusal.into_response();
    };
    let status = match &outcome.result {
        Ok(_) => StatusCode::OK,
        Err(Refused::QuickMode) => StatusCode::CONFLICT,
        Err(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let accepted = request.get(header::ACCEPT);
    let wants_json = accepted.is_some_and(|types| {
        let types = types.as_bytes();
        memchr::memmem::find(types, b"application/json").is_some()
    });
    match wants_json {
        true => (status, Json(outcome.to_json())).into_response(),
        false => (status, outcome.to_string()).into_response(),
    }
}

async fn quit(State(control): Shared) -> &'static str {
    (control.shutdown)();
    "draining\n"
}

async fn scrape(State(control): Shared) -> impl IntoResponse {
    let text = metrics::render(&control.observed, clock::now());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text)
}

async fn is_ready(State(control): Shared) -> (StatusCode, &'static str) {
    if control.readiness.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or draining\n")
    }
}

fn not_found(paths: &str) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("there is: {paths}\n"))
}
