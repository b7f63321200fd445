//! `/jobs`: what became of an event; retry and cancel.

use crate::{
    auth::{Authorized, JobsRead, JobsWrite},
    problem::{Code, Problem, ProblemBody},
    query::Params,
    service::ListJobs,
    state::ApiState,
    views::{CancelSummary, JobDetail, JobSummary, Page, RetrySummary},
};
use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
};
use hyper::{Uri, http::request::Parts};
use waybill_core::{address::EmailAddress, ids::JobId, state::JobState};

/// The `{id}` of a job's path.
#[derive(Debug)]
pub struct JobPath(JobId);

impl FromRequestParts<ApiState> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, api)
            .await
            .map_err(|_| Problem::parameter("id", "not readable UTF-8"))?;
        text.parse().map(JobPath).map_err(|e: waybill_core::ids::IdError| Problem::parameter("id", e.to_string()))
    }
}

fn no_such_job() -> Problem {
    Problem::new(Code::NotFound, "no such job for this key; check the id and the key's tenant")
}

/// List jobs, newest first.
#[utoipa::path(get, path = "/jobs", tag = "jobs",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Default 50"),
        ("after" = Option<String>, Query, description = "`next` of the page before"),
        ("status" = Option<String>, Query, description = "PENDING, ROUTED, COMPLETED, PARTLY_FAILED, FAILED or CANCELLED"),
        ("type" = Option<String>, Query, description = "The event's type, whole"),
        ("subject" = Option<String>, Query, description = "The event's subject, whole"),
        ("recipient" = Option<String>, Query, description = "An e-mail address; jobs with a delivery to it"),
        ("since" = Option<String>, Query, format = DateTime, description = "Created at or after"),
        ("until" = Option<String>, Query, format = DateTime, description = "Created before")),
    responses(
        (status = 200, description = "One page", body = Page<JobSummary>),
        (status = 400, description = "A parameter is unknown or wrong", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn list_jobs(
    State(api): State<ApiState>,
    caller: Authorized<JobsRead>,
    uri: Uri,
) -> Result<Json<Page<JobSummary>>, Problem> {
    let list = read_list(&uri)?;
    let page = api.service.list_jobs(caller.tenant, list).await?;
    Ok(Json(Page { data: page.data.into_iter().map(JobSummary::explained).collect(), next: page.next }))
}

fn read_list(uri: &Uri) -> Result<ListJobs, Problem> {
    let known = ["limit", "after", "status", "type", "subject", "recipient", "since", "until"];
    let params = Params::read(uri, &known)?;
    let list = ListJobs {
        status: params.parse("status", |text| {
            let words: Vec<_> = JobState::ALL.iter().map(|s| s.as_str()).collect();
            JobState::parse(text).ok_or_else(|| format!("one of {}", words.join(", ")))
        })?,
        event_type: params.text("type").map(str::to_owned),
        subject: params.text("subject").map(str::to_owned),
        recipient: params.parse("recipient", |text| EmailAddress::parse(text).map_err(|e| e.to_string()))?,
        since: params.time("since")?,
        until: params.time("until")?,
        after: params.id("after")?,
        limit: params.limit()?,
    };
    if let (Some(since), Some(until)) = (list.since, list.until)
        && since > until
    {
        return Err(Problem::parameter("until", "earlier than `since`"));
    }
    Ok(list)
}

/// Find a job, with its deliveries, attempts, documents and timeline.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs",
    params(
        ("id" = String, Path, description = "job_..."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Deliveries per page; default 50"),
        ("after" = Option<String>, Query, description = "`deliveries.next` of the page before")),
    responses(
        (status = 200, description = "The job", body = JobDetail),
        (status = 400, description = "A parameter is unknown or wrong", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "No such job for this key", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn find_job(
    State(api): State<ApiState>,
    caller: Authorized<JobsRead>,
    JobPath(job): JobPath,
    uri: Uri,
) -> Result<Json<JobDetail>, Problem> {
    let params = Params::read(&uri, &["limit", "after"])?;
    let found = api.service.find_job(caller.tenant, job, params.id("after")?, params.limit()?).await?;
    Ok(Json(found.ok_or_else(no_such_job)?.explained()))
}

/// Put the job's dead-lettered deliveries back to PENDING. Nothing that a provider has accepted is sent again.
#[utoipa::path(post, path = "/jobs/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "job_...")),
    responses(
        (status = 200, description = "What was put back", body = RetrySummary),
        (status = 400, description = "Not the id of a job", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "No such job for this key", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn retry_job(
    State(api): State<ApiState>,
    caller: Authorized<JobsWrite>,
    JobPath(job): JobPath,
    uri: Uri,
) -> Result<Json<RetrySummary>, Problem> {
    Params::read(&uri, &[])?;
    Ok(Json(api.service.retry_job(caller.tenant, job).await?.ok_or_else(no_such_job)?))
}

/// Cancel what was not handed to a provider yet.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "job_...")),
    responses(
        (status = 200, description = "What was cancelled", body = CancelSummary),
        (status = 400, description = "Not the id of a job", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "No such job for this key", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn cancel_job(
    State(api): State<ApiState>,
    caller: Authorized<JobsWrite>,
    JobPath(job): JobPath,
    uri: Uri,
) -> Result<Json<CancelSummary>, Problem> {
    Params::read(&uri, &[])?;
    Ok(Json(api.service.cancel_job(caller.tenant, job).await?.ok_or_else(no_such_job)?))
}
