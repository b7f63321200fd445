use serde_json::{Value, json};
use waybill_sink::SinkConfig;

use crate::common::{PDF, TestSink, sendgrid_mail, ses_mail};

async fn page(sink: &TestSink, path: &str) -> (reqwest::header::HeaderMap, String) {
    let answer = sink.http.get(sink.url(path)).header("accept", "text/html,*/*;q=0.8").send().await.expect("an answer");
    (answer.headers().clone(), answer.text().await.expect("text"))
}

#[tokio::test]
async fn the_list_is_json_newest_first() {
    let sink = TestSink::start().await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    sink.send_sendgrid(&sendgrid_mail("dlv_2")).await;
    let list = sink.get_json("/mailbox").await;
    let id = list[1]["id"].as_str().unwrap();
    let mut first = list[1].clone();
    assert!(first["received_at"].as_str().unwrap().ends_with('Z'));
    first["received_at"] = json!("-");
    let message_id = first["message_id"].clone();
    let expected = json!({
        "id": id, "provider": "ses", "accepted_by": "Amazon SES", "message_id": message_id,
        "delivery_id": "dlv_1", "job_id": "job_1", "to": "ada@example.com", "subject": "Invoice 17 für Ada",
        "attachments": [{
            "filename": "invoice-17.pdf", "content_type": "application/pdf", "size": PDF.len(),
            "url": format!("/mailbox/{id}/attachments/0"),
        }],
        "received_at": "-",
    });
    assert_eq!(first, expected);
    assert_eq!((&list[0]["provider"], &list[0]["delivery_id"]), (&json!("sendgrid"), &json!("dlv_2")));
    for (query, found) in
        [("delivery_id=dlv_2", 1), ("job_id=job_1", 2), ("q=ADA@", 2), ("q=nobody", 0), ("limit=1", 1)]
    {
        assert_eq!(sink.get_json(&format!("/mailbox?{query}")).await.as_array().unwrap().len(), found, "{query}");
    }
}

#[tokio::test]
async fn one_mail_has_everything() {
    let sink = TestSink::start().await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    let id = sink.sink.mails()[0].id.clone();
    let mail = sink.get_json(&format!("/mailbox/{id}")).await;
    assert_eq!(mail["text"], "See the attachment");
    assert_eq!(mail["html"], "<p>See the <b>attachment</b></p>");
    assert_eq!(mail["from"], "Acme <no-reply@acme.example>");
    assert_eq!(mail["headers"], json!([{ "name": "Auto-Submitted", "value": "auto-generated" }]));
    assert_eq!(mail["tags"]["delivery_id"], "dlv_1");
}

#[tokio::test]
async fn an_attachment_is_served_as_it_was_sent() {
    let sink = TestSink::start().await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    let url = sink.get_json("/mailbox").await[0]["attachments"][0]["url"].as_str().unwrap().to_owned();
    let answer = sink.http.get(sink.url(&url)).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/pdf");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    let disposition = answer.headers()["content-disposition"].to_str().unwrap().to_owned();
    assert!(disposition.starts_with("inline; filename=\"invoice-17.pdf\""), "{disposition}");
    assert_eq!(&answer.bytes().await.unwrap()[..], PDF);
    let missing = sink.http.get(sink.url(&url.replace("/0", "/1"))).send().await.unwrap();
    assert_eq!(missing.status(), 404);
}

#[tokio::test]
async fn an_html_attachment_is_only_ever_a_download() {
    let sink = TestSink::start().await;
    let mut body = ses_mail("dlv_1");
    body["Content"]["Simple"]["Attachments"][0]["ContentType"] = json!("text/html");
    body["Content"]["Simple"]["Attachments"][0]["FileName"] = json!("x\".html");
    sink.send_ses(&body).await;
    let url = sink.get_json("/mailbox").await[0]["attachments"][0]["url"].as_str().unwrap().to_owned();
    let answer = sink.http.get(sink.url(&url)).send().await.unwrap();
    let disposition = answer.headers()["content-disposition"].to_str().unwrap();
    assert!(disposition.starts_with("attachment; filename=\"x_.html\""), "{disposition}");
    assert!(answer.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
}

#[tokio::test]
async fn what_a_sender_wrote_is_escaped_on_every_page() {
    let sink = TestSink::start().await;
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let mut body = sendgrid_mail("dlv_1");
    body["subject"] = json!(evil);
    body["from"]["name"] = json!(evil);
    body["attachments"][0]["filename"] = json!(evil);
    body["content"][0]["value"] = json!(evil);
    body["personalizations"][0]["custom_args"]["note"] = json!(evil);
    body["headers"] = json!({ "X-Evil": evil });
    assert_eq!(sink.send_sendgrid(&body).await.status(), 202);
    let id = sink.sink.mails()[0].id.clone();
    for path in ["/mailbox".to_owned(), format!("/mailbox/{id}"), "/mailbox?q=%3Cscript%3Ealert(1)".to_owned()] {
        let (headers, html) = page(&sink, &path).await;
        assert!(headers["content-type"].to_str().unwrap().starts_with("text/html"));
        assert!(html.contains("&lt;script&gt;alert(1)"), "{path}");
        assert!(!html.contains("<script>alert") && !html.contains("<img"), "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test]
async fn the_html_part_is_served_in_a_sandbox_of_its_own() {
    let sink = TestSink::start().await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    let id = sink.sink.mails()[0].id.clone();
    let (_, html) = page(&sink, &format!("/mailbox/{id}")).await;
    assert!(html.contains(&format!("src=\"/mailbox/{id}/html\"")) && html.contains("sandbox=\"allow-popups"), "{html}");
    let (headers, part) = page(&sink, &format!("/mailbox/{id}/html")).await;
    assert!(part.contains("<b>attachment</b>"));
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("sandbox") && policy.contains("default-src 'none'") && !policy.contains("allow-scripts"));
}

#[tokio::test]
async fn the_page_names_the_provider_of_each_mail() {
    let sink = TestSink::start().await;
    let (_, empty) = page(&sink, "/mailbox").await;
    assert!(empty.contains("No mails yet"));
    sink.send_ses(&ses_mail("dlv_1")).await;
    sink.send_sendgrid(&sendgrid_mail("dlv_2")).await;
    let (_, html) = page(&sink, "/mailbox").await;
    let rows: Vec<&str> = html.split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 2);
    assert!(rows[0].contains("SendGrid") && rows[0].contains("dlv_2"), "{}", rows[0]);
    assert!(rows[1].contains("Amazon SES") && rows[1].contains("invoice-17.pdf"), "{}", rows[1]);
}

#[tokio::test]
async fn old_mails_go_and_counts_stay() {
    let sink = TestSink::with(SinkConfig { max_mails: 2, ..SinkConfig::default() }).await;
    for delivery in ["dlv_1", "dlv_2", "dlv_3"] {
        sink.send_ses(&ses_mail(delivery)).await;
    }
    let list = sink.get_json("/mailbox").await;
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(sink.get_json("/counts").await["accepted"], 3);
    let emptied = sink.http.delete(sink.url("/mailbox")).send().await.unwrap();
    assert_eq!(emptied.status(), 204);
    assert_eq!(sink.get_json("/mailbox").await, json!([]));
    assert_eq!(sink.get_json("/counts").await["accepted"], 3);
}

#[tokio::test]
async fn a_mail_that_is_gone_is_a_404_in_the_readers_language() {
    let sink = TestSink::start().await;
    let answer = sink.http.get(sink.url("/mailbox/none")).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], "not_found");
    let (_, html) = page(&sink, "/mailbox/none").await;
    assert!(html.contains("This mail is not here"));
}
