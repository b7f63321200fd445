//! The rule that turns an event into deliveries, and its evaluation. Pure: the router calls it inside its transaction.
//!
//! A rule is in its minimal form: event type -> document, channel, mail, and where the recipients stand (in the event, or behind a JSON
//! Pointer into `data`). Rows of a route are never changed: an edit is a new version, and a delivery remembers the version it was decided by.

use crate::{
    address::Channel,
    event::{Recipient, recipient},
    identity::{Identity, Parts},
    ids::{JobId, RouteId, TenantId},
    json::Json,
    mail::MailTemplate,
    outcome::OnUnknown,
    state::Reason,
};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What a route does, as stored in its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// `email`.
    pub channel: String,
    /// Document type to render and attach; none for a plain message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// JSON Pointer into `data` to one recipient or an array of them; none means the event's `recipients`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<String>,
    /// `false` sends again what was already sent (the job's id becomes part of the identity).
    #[serde(default = "yes")]
    pub dedupe: bool,
    /// `reconcile`, `failover` or `hold`; none leaves it to the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<String>,
    pub mail: MailTemplate,
}

fn yes() -> bool {
    true
}

/// A stored route.
#[derive(Debug, Clone)]
pub struct Route {
    pub id: RouteId,
    pub version: i32,
    pub event_type: String,
    pub spec: RouteSpec,
}

impl RouteSpec {
    /// # Errors
    /// What is wrong with the rule, naming the field.
    pub fn check(&self) -> Result<(), String> {
        Channel::parse(&self.channel).ok_or_else(|| {
            format!("channel: `{}` is not one of {:?}", self.channel, Channel::ALL.map(Channel::as_str))
        })?;
        if let Some(policy) = &self.on_unknown {
            OnUnknown::parse(policy)
                .ok_or_else(|| format!("on_unknown: `{policy}` is not reconcile, failover or hold"))?;
        }
        if self.recipients.as_ref().is_some_and(|pointer| !pointer.starts_with('/')) {
            return Err("recipients: a JSON Pointer starts with `/`".into());
        }
        self.mail.check()
    }
}

/// The facts of a job that a route is evaluated on.
#[derive(Debug, Clone)]
pub struct JobFacts {
    pub tenant: TenantId,
    pub job: JobId,
    pub subject: Option<String>,
    /// [`crate::event::Event::effective_revision`].
    pub revision: String,
    pub recipients: Vec<Recipient>,
    pub data: Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDocument {
    pub document_type: String,
    /// The event's subject, else the job's id.
    pub subject: String,
    pub revision: String,
    pub template_version: i32,
}

impl PlannedDocument {
    /// Derived from what the document is, so that two renders meet at one key. Parts are hashed: any text may stand in them.
    pub fn object_key(&self, tenant: TenantId) -> String {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for part in [&self.document_type, &self.subject, &self.revision] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(self.template_version.to_be_bytes());
        format!("{tenant}/{}/{}.pdf", self.document_type, hex::encode(hash.finalize()))
    }
}

#[derive(Debug, Clone)]
pub struct PlannedDelivery {
    pub route: RouteId,
    pub route_version: i32,
    pub channel: Channel,
    /// As spelt by the producer.
    pub recipient: String,
    pub recipient_name: String,
    pub recipient_key: String,
    pub identity: Identity,
    /// Set where the event names a subject: what all revisions share.
    pub lineage: Option<[u8; 32]>,
    /// Index into [`Plan::documents`].
    pub document: Option<usize>,
    /// Final at birth: this recipient can't be served, its neighbours can.
    pub failed: Option<(Reason, String)>,
}

/// The decision about one job.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub documents: Vec<PlannedDocument>,
    pub deliveries: Vec<PlannedDelivery>,
    /// Why the job has no deliveries at all.
    pub nothing: Option<(Reason, String)>,
}

/// Evaluates `routes` (those of the job's event type) on a job. `template_version` knows the document types.
pub fn plan(
    job: &JobFacts,
    routes: &[Route],
    max_recipients: usize,
    template_version: &dyn Fn(&str) -> Option<i32>,
) -> Plan {
    let mut plan = Plan::default();
    if routes.is_empty() {
        plan.nothing = Some((Reason::NoRoute, "no active route of this tenant matches the event's type".into()));
        return plan;
    }
    let mut seen = HashSet::new();
    for route in routes {
        evaluate(job, route, template_version, &mut seen, &mut plan);
    }
    if plan.deliveries.len() > max_recipients {
        let detail = format!("{} recipients; the limit max_recipients is {max_recipients}", plan.deliveries.len());
        return Plan { nothing: Some((Reason::TooManyRecipients, detail)), ..Plan::default() };
    }
    if plan.deliveries.is_empty() {
        plan.nothing = Some((
            Reason::NoRecipients,
            "the event names no recipients, and the route's pointer found none in `data`".into(),
        ));
    }
    plan
}

fn evaluate(
    job: &JobFacts,
    route: &Route,
    template_version: &dyn Fn(&str) -> Option<i32>,
    seen: &mut HashSet<Identity>,
    plan: &mut Plan,
) {
    let spec = &route.spec;
    let channel = Channel::parse(&spec.channel).unwrap_or(Channel::Email);
    let job_id = job.job.to_string();
    let subject = job.subject.as_deref().unwrap_or(&job_id);
    let content = spec.document.clone().unwrap_or_else(|| format!("route:{}", route.id));
    let nonce = (!spec.dedupe).then_some(job_id.as_str());
    let mut no_document = None;
    let mut document = None;
    if let Some(document_type) = &spec.document {
        match template_version(document_type) {
            Some(template_version) => {
                let planned = PlannedDocument {
                    document_type: document_type.clone(),
                    subject: subject.to_owned(),
                    revision: job.revision.clone(),
                    template_version,
                };
                document = Some(plan.documents.iter().position(|d| *d == planned).unwrap_or_else(|| {
                    plan.documents.push(planned);
                    plan.documents.len() - 1
                }));
            }
            None => {
                no_document = Some((
                    Reason::DocumentRenderFailed,
                    format!("the route asks for the document type `{document_type}`, which does not exist"),
                ))
            }
        }
    }
    for person in people(job, spec) {
        let (address, name, key, mut failed) = match person {
            Ok(r) => {
                let failed = r.email.sendable().err().map(|why| (Reason::UnsupportedAddress, why.to_string()));
                (r.email.as_given().to_owned(), r.name, r.email.key(), failed)
            }
            // Shown to its tenant, compared by nothing else: the place makes it unique.
            Err((place, detail)) => (
                String::new(),
                String::new(),
                format!("invalid:{place}"),
                Some((Reason::InvalidAddress, format!("{place}: {detail}"))),
            ),
        };
        failed = failed.or_else(|| no_document.clone());
        let parts = Parts {
            tenant: job.tenant,
            channel,
            recipient_key: &key,
            content: &content,
            subject,
            revision: &job.revision,
            nonce,
        };
        let identity = parts.identity();
        if !seen.insert(identity) {
            continue;
        }
        plan.deliveries.push(PlannedDelivery {
            route: route.id,
            route_version: route.version,
            channel,
            recipient: address,
            recipient_name: name,
            lineage: (job.subject.is_some() && spec.dedupe).then(|| parts.lineage()),
            identity,
            recipient_key: key,
            document,
            failed,
        });
    }
}

/// The recipients of a route; an entry of `data` that is no address comes back with its place and the reason.
fn people(job: &JobFacts, spec: &RouteSpec) -> Vec<Result<Recipient, (String, String)>> {
    let Some(pointer) = &spec.recipients else {
        return job.recipients.iter().cloned().map(Ok).collect();
    };
    let one = |item: &Json, place: String| {
        recipient(item).map_err(|(step, _, detail)| (format!("/data{place}{step}"), detail))
    };
    match job.data.pointer(pointer) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) => {
            items.iter().enumerate().map(|(i, item)| one(item, format!("{pointer}/{i}"))).collect()
        }
        Some(item @ (Json::String(_) | Json::Object(_) | Json::Number(_) | Json::Bool(_))) => {
            vec![one(item, pointer.clone())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{address::EmailAddress, json};
    use uuid::Uuid;

    fn facts(emails: &[&str], data: &str) -> JobFacts {
        JobFacts {
            tenant: TenantId(Uuid::nil()),
            job: JobId(Uuid::from_u128(7)),
            subject: Some("PO-1".into()),
            revision: "1".into(),
            recipients: emails
                .iter()
                .map(|e| Recipient { email: EmailAddress::parse(e).unwrap(), name: String::new() })
                .collect(),
            data: json::parse(data.as_bytes()).unwrap(),
        }
    }
    fn route(recipients: Option<&str>) -> Route {
        let mail = MailTemplate {
            from: "orders@shop.example".into(),
            from_name: "Shop".into(),
            subject: "Order {subject}".into(),
            text: "Hello".into(),
        };
        let spec = RouteSpec {
            channel: "email".into(),
            document: Some("purchase_order".into()),
            recipients: recipients.map(Into::into),
            dedupe: true,
            on_unknown: None,
            mail,
        };
        Route { id: RouteId(Uuid::from_u128(1)), version: 3, event_type: "order.placed".into(), spec }
    }
    fn decide(job: &JobFacts, routes: &[Route]) -> Plan {
        plan(job, routes, 4, &|t| (t == "purchase_order").then_some(2))
    }

    #[test]
    fn one_delivery_per_recipient_key_and_one_document_for_all() {
        let plan = decide(&facts(&["Ana@example.test", "ana@EXAMPLE.test", "bo@example.test"], "{}"), &[route(None)]);
        assert_eq!((plan.deliveries.len(), plan.documents.len()), (2, 1));
        assert_eq!(plan.deliveries[0].recipient, "Ana@example.test");
        assert_eq!((plan.deliveries[0].route_version, plan.documents[0].template_version), (3, 2));
    }

    #[test]
    fn ses_02_one_recipient_that_can_t_be_served_does_not_hold_back_the_others() {
        let plan = decide(&facts(&["s\u{f8}ren@example.test", "bo@example.test"], "{}"), &[route(None)]);
        assert_eq!(plan.deliveries[0].failed.as_ref().map(|f| f.0), Some(Reason::UnsupportedAddress));
        assert_eq!(plan.deliveries[1].failed, None);
    }

    #[test]
    fn recipients_are_found_behind_a_pointer_and_bad_ones_are_named_by_place() {
        let job = facts(&[], r#"{"to":["bo@example.test",{"email":"cy@example.test","name":"Cy"},"nobody",3]}"#);
        let plan = decide(&job, &[route(Some("/to"))]);
        let failed: Vec<_> = plan.deliveries.iter().filter_map(|d| d.failed.as_ref()).collect();
        assert_eq!((plan.deliveries.len(), failed.len()), (4, 2));
        assert!(failed[0].1.starts_with("/data/to/2:"), "{failed:?}");
    }

    #[test]
    fn no_route_no_recipients_and_too_many_are_said() {
        let nothing = |plan: Plan| plan.nothing.map(|n| n.0);
        assert_eq!(nothing(decide(&facts(&["a@b.example"], "{}"), &[])), Some(Reason::NoRoute));
        assert_eq!(nothing(decide(&facts(&[], "{}"), &[route(Some("/to"))])), Some(Reason::NoRecipients));
        let many: Vec<String> = (0..5).map(|i| format!("a{i}@b.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(nothing(decide(&facts(&many, "{}"), &[route(None)])), Some(Reason::TooManyRecipients));
    }

    #[test]
    fn a_wrong_rule_is_refused_with_its_field() {
        assert_eq!(route(Some("/to")).spec.check(), Ok(()));
        type Break = fn(&mut RouteSpec);
        let cases: [(Break, &str); 5] = [
            (|s| s.channel = "pigeon".into(), "channel: `pigeon`"),
            (|s| s.on_unknown = Some("perhaps".into()), "on_unknown: `perhaps`"),
            (|s| s.recipients = Some("to".into()), "recipients:"),
            (|s| s.mail.from = "nobody".into(), "mail.from:"),
            (|s| s.mail.subject = " ".into(), "mail.subject:"),
        ];
        for (change, field) in cases {
            let mut spec = route(None).spec;
            change(&mut spec);
            let problem = spec.check().unwrap_err();
            assert!(problem.starts_with(field), "{problem}");
        }
        let least = r#"{"channel":"email","mail":{"from":"a@b.example","subject":"s","text":"t"}}"#;
        assert!(serde_json::from_str::<RouteSpec>(least).unwrap().dedupe, "what was sent is not sent again by default");
    }

    #[test]
    fn two_routes_of_one_document_share_it_and_another_document_is_another_one() {
        let mut other = route(None);
        other.spec.document = Some("invoice".into());
        other.id = RouteId(Uuid::from_u128(2));
        let mut same = other.clone();
        same.spec.recipients = Some("/to".into());
        let job = facts(&["a@b.example"], r#"{"to":["c@d.example"]}"#);
        let plan = plan(&job, &[route(None), other, same], 4, &|_| Some(2));
        let documents: Vec<_> = plan.deliveries.iter().map(|d| d.document).collect();
        assert_eq!((documents, plan.documents.len()), (vec![Some(0), Some(1), Some(1)], 2));
        let keys: Vec<_> = plan.documents.iter().map(|d| d.object_key(job.tenant)).collect();
        assert_ne!(keys[0], keys[1]);
        assert!(
            keys[0].starts_with(&format!("{}/purchase_order/", job.tenant)) && keys[0].ends_with(".pdf"),
            "{keys:?}"
        );
    }

    #[test]
    fn only_what_has_a_subject_and_is_compared_has_other_revisions() {
        let lineage = |job: &JobFacts, route: &Route| decide(job, std::slice::from_ref(route)).deliveries[0].lineage;
        let (mut job, mut route) = (facts(&["a@b.example"], "{}"), route(None));
        assert!(lineage(&job, &route).is_some());
        route.spec.dedupe = false;
        assert_eq!(lineage(&job, &route), None);
        (job.subject, route.spec.dedupe) = (None, true);
        assert_eq!(lineage(&job, &route), None);
    }

    #[test]
    fn rl_02_without_a_subject_two_alike_jobs_are_two_things_and_with_one_they_are_the_same() {
        let mut a = facts(&["a@b.example"], "{}");
        let mut b = facts(&["a@b.example"], "{}");
        b.job = JobId(Uuid::from_u128(8));
        let identity = |job: &JobFacts, route: Route| decide(job, &[route]).deliveries[0].identity;
        assert_eq!(identity(&a, route(None)), identity(&b, route(None)));
        let mut again = route(None);
        again.spec.dedupe = false;
        assert_ne!(identity(&a, again.clone()), identity(&b, again));
        (a.subject, b.subject) = (None, None);
        assert_ne!(identity(&a, route(None)), identity(&b, route(None)));
    }
}
