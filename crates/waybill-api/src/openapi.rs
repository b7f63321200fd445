//! The routers, and the OpenAPI 3.1 document that is generated from the same list.

use crate::{
    events, health, inbound, jobs,
    observe::{method_not_allowed, not_found, observe, panicked},
    problem,
    state::ApiState,
};
use axum::{
    Router,
    http::{HeaderValue, header::CONTENT_TYPE},
    middleware::from_fn,
    routing::get,
};
use std::sync::OnceLock;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ContentBuilder, Ref, RefOr, ResponseBuilder,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

#[derive(OpenApi)]
#[openapi(
    info(title = "Waybill", description = "Turns events into business documents and delivers them: at least once, de-duplicated; \
        duplicates only from an unknown outcome. Every refusal is application/problem+json with a stable `code`."),
    modifiers(&Schemes),
    security(("api_key" = [])),
    tags(
        (name = "events", description = "Post what happened"),
        (name = "jobs", description = "See what became of it"),
        (name = "inbound", description = "Providers' events"),
        (name = "health", description = "For load balancers and orchestrators"),
        (name = "about", description = "What is here")),
)]
struct ApiDoc;

struct Schemes;

impl Modify for Schemes {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_with(Default::default);
        let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "An API key (wb_live_... or wb_test_...). Scopes: events:write, jobs:read, jobs:write, ops.",
        ));
        components.add_security_scheme("api_key", SecurityScheme::Http(key.build()));
        let secret = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some("The secret configured for the provider account, as the password."));
        components.add_security_scheme("inbound_secret", SecurityScheme::Http(secret.build()));
    }
}

fn parts() -> (Router<ApiState>, utoipa::openapi::OpenApi) {
    let (router, mut api) = OpenApiRouter::with_openapi(ApiDoc::openapi())
        .routes(routes!(events::create_event))
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::find_job))
        .routes(routes!(jobs::retry_job))
        .routes(routes!(jobs::cancel_job))
        .routes(routes!(inbound::create_inbound))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::welcome))
        .routes(routes!(problem::find_problem))
        .split_for_parts();
    for item in api.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            add_common_problems(operation);
        }
    }
    (router, api)
}

/// What every route can answer, so that no route has to repeat it.
fn add_common_problems(operation: &mut Operation) {
    let is_public = operation.security.as_ref().is_some_and(|s| s.iter().any(|r| *r == Default::default()));
    let is_inbound = operation.security.is_some() && !is_public;
    let mut common = vec![("500", "Our mistake; sending it again is safe")];
    if !is_public {
        common.extend([
            ("401", "Credentials are missing or wrong"),
            ("503", "Nothing was done; Retry-After says when to try again"),
        ]);
        if !is_inbound {
            common.push(("403", "The key lacks the scope"));
        }
    }
    for (status, description) in common {
        let content = ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name("Problem")))).build();
        let response =
            ResponseBuilder::new().description(description).content("application/problem+json", content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}

/// The OpenAPI document.
pub fn document() -> utoipa::openapi::OpenApi {
    parts().1
}

/// The document's text, as checked in and as served at `/openapi.json`.
pub fn document_text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_pretty_json().map(|text| text + "\n").unwrap_or_default())
}

async fn openapi_json() -> ([(axum::http::HeaderName, HeaderValue); 1], &'static str) {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], document_text())
}

/// The public routes.
pub fn router(state: ApiState) -> Router {
    let (router, _) = parts();
    finished(router.route("/openapi.json", get(openapi_json))).with_state(state)
}

/// `/metrics` with the probes, for a port that the public doesn't reach.
pub fn ops_router(state: ApiState, render: health::RenderMetrics) -> Router {
    let router = Router::new()
        .route("/metrics", get(move || health::metrics(render.clone())))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz));
    finished(router).with_state(state)
}

fn finished(router: Router<ApiState>) -> Router<ApiState> {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe))
}
