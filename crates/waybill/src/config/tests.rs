use super::*;
use std::collections::HashMap;

fn read(values: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let values: HashMap<String, String> = values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Config::read(Arc::new(move |name: &str| values.get(name).cloned()))
}

#[test]
fn the_defaults_need_only_a_database_and_the_providers_accounts() {
    let config = read(&[
        ("DATABASE_URL", "postgres://localhost/x"),
        ("AWS_REGION", "eu-central-1"),
        ("WAYBILL_SENDGRID_API_KEY", "SG.x"),
    ])
    .unwrap();
    assert_eq!(config.providers.order.iter().map(|k| k.name).collect::<Vec<_>>(), ["ses", "sendgrid"]);
}

#[test]
fn every_wrong_variable_is_named_at_once() {
    let errors = read(&[
        ("WAYBILL_CLAIM_TTL_MS", "soon"),
        ("WAYBILL_API_LISTEN", "8080"),
        ("WAYBILL_PROVIDERS", "ses,pigeon"),
        ("WAYBILL_QUEUE_VISIBILITY_MS", "1000"),
    ])
    .unwrap_err()
    .to_string();
    for wanted in [
        "DATABASE_URL",
        "WAYBILL_CLAIM_TTL_MS",
        "WAYBILL_API_LISTEN",
        "pigeon",
        "the claim's expiry must be below the visibility timeout",
        "at least 6 times",
    ] {
        assert!(errors.contains(wanted), "{wanted} in {errors}");
    }
}

#[test]
fn the_page_lists_every_variable_as_it_is() {
    let page = include_str!("../../../../docs/configuration.md");
    for variable in Config::table() {
        assert!(
            page.contains(&variable.row()),
            "docs/configuration.md lacks or misstates:\n{}\nrun `cargo run -- config table`",
            variable.row()
        );
    }
}

/// A usable environment with some variables of one's own in it.
fn with(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let base =
        [("DATABASE_URL", "postgres://localhost/x"), ("WAYBILL_PROVIDERS", "ses"), ("AWS_REGION", "eu-central-1")];
    base.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read_all(values: &[(String, String)]) -> Result<Config, ConfigErrors> {
    let values: Vec<(&str, &str)> = values.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    read(&values)
}

/// The errors of [`with`], as one text.
fn errors(more: &[(&str, &str)]) -> String {
    read_all(&with(more)).map(|_| String::new()).unwrap_or_else(|errors| errors.to_string())
}

#[test]
fn the_adapters_are_the_embedded_ones_until_the_environment_says_otherwise() {
    let config = read_all(&with(&[])).unwrap();
    assert_eq!(config.adapters.queue, QueueChoice::Local);
    assert_eq!(config.adapters.objects, ObjectsChoice::Disk { folder: ".waybill/data".into() });
    assert_eq!(config.adapters.renderer, RendererChoice::Local);
    let on_aws = [
        ("WAYBILL_QUEUE", "sqs"),
        ("WAYBILL_SQS_PREFIX", "shop"),
        ("WAYBILL_OBJECTS", "s3"),
        ("WAYBILL_BUCKET", "documents"),
        ("WAYBILL_RENDERER", "lambda"),
        ("WAYBILL_RENDERER_FUNCTION", "renderer:live"),
        ("WAYBILL_ALERT_TOPIC_ARN", "arn:aws:sns:eu-central-1:111122223333:alerts"),
        ("REDIS_URL", "redis://localhost"),
    ];
    let config = read_all(&with(&on_aws)).unwrap();
    assert_eq!(config.adapters.queue, QueueChoice::Sqs { prefix: "shop".into() });
    assert_eq!(config.adapters.objects, ObjectsChoice::S3 { bucket: "documents".into() });
    let timeout = Duration::from_secs(28);
    assert_eq!(config.adapters.renderer, RendererChoice::Lambda { function: "renderer:live".into(), timeout });
    assert_eq!(config.warnings(), [""; 0]);
}

/// What is set, and what the errors must hold.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn each_wrong_adapter_names_its_variable_and_what_it_should_be() {
    let s3 = [("WAYBILL_OBJECTS", "s3"), ("WAYBILL_BUCKET", "b")];
    let lambda = [s3[0], s3[1], ("WAYBILL_RENDERER", "lambda"), ("WAYBILL_RENDERER_FUNCTION", "f")];
    assert_eq!(errors(&lambda), "");
    let cases: &[Case<'_>] = &[
        (&[("WAYBILL_QUEUE", "kafka")], &["WAYBILL_QUEUE", "expected local or sqs"]),
        (&[("WAYBILL_OBJECTS", "s3")], &["WAYBILL_BUCKET", "is not set", "WAYBILL_OBJECTS=s3"]),
        (&[s3[0], s3[1], lambda[2]], &["WAYBILL_RENDERER_FUNCTION", "is not set"]),
        (&[lambda[2], lambda[3]], &["WAYBILL_RENDERER:", "set WAYBILL_OBJECTS=s3"]),
        (&[("WAYBILL_QUEUE", "sqs"), ("WAYBILL_SQS_PREFIX", "a b")], &["WAYBILL_SQS_PREFIX", "letters"]),
        (&[("WAYBILL_QUEUE", "sqs"), ("WAYBILL_QUEUE_WAIT_MS", "300")], &["WAYBILL_QUEUE_WAIT_MS", "1000 to 20000"]),
        (
            &[lambda[0], lambda[1], lambda[2], lambda[3], ("WAYBILL_RENDERER_TIMEOUT_MS", "30000")],
            &["WAYBILL_RENDERER_TIMEOUT_MS", "below WAYBILL_DOCUMENT_RENDER_TIMEOUT_MS: 30s against 30s"],
        ),
        (&[("WAYBILL_ALERT_TOPIC_ARN", "alerts")], &["WAYBILL_ALERT_TOPIC_ARN", "expected arn:aws:sns"]),
    ];
    for (set, wanted) in cases {
        let errors = errors(set);
        assert!(wanted.iter().all(|words| errors.contains(words)), "{wanted:?} in {errors}");
    }
}

#[test]
fn each_adapter_on_aws_needs_a_region() {
    for choice in [&[("WAYBILL_QUEUE", "sqs")][..], &[("WAYBILL_OBJECTS", "s3"), ("WAYBILL_BUCKET", "b")]] {
        let mut values = with(choice);
        values.retain(|(name, _)| name != "AWS_REGION");
        values.push(("WAYBILL_SES_REGION".into(), "eu-central-1".into()));
        let errors = read_all(&values).unwrap_err().to_string();
        assert!(errors.contains("AWS_REGION: is not set") && errors.contains(choice[0].0), "{errors}");
        values.push(("AWS_DEFAULT_REGION".into(), "eu-west-1".into()));
        assert_eq!(read_all(&values).unwrap().adapters.region.as_deref(), Some("eu-west-1"));
    }
}

#[test]
fn sqs_04_what_a_stop_waits_for_has_to_fit_into_the_stop_timeout() {
    // The longest poll that SQS knows fits into the default.
    assert_eq!(errors(&[("WAYBILL_QUEUE", "sqs"), ("WAYBILL_QUEUE_WAIT_MS", "20000")]), "");
    let cases = [
        (("WAYBILL_QUEUE_WAIT_MS", "21000"), "below WAYBILL_STOP_TIMEOUT_MS: 22s against 22s"),
        (("WAYBILL_STOP_TIMEOUT_MS", "12000"), "WAYBILL_CLAIM_MARGIN_MS must be below it: 12s against 12s"),
        (("WAYBILL_API_DRAIN_DELAY_MS", "22000"), "WAYBILL_API_DRAIN_DELAY_MS: must be below WAYBILL_STOP_TIMEOUT_MS"),
    ];
    for (set, wanted) in cases {
        let errors = errors(&[set]);
        assert!(errors.contains(wanted), "{wanted} in {errors}");
    }
}

#[test]
fn processes_that_share_less_than_they_seem_to_are_warned() {
    let warnings = read_all(&with(&[("WAYBILL_QUEUE", "sqs")])).unwrap().warnings().join("\n");
    assert!(warnings.contains("without REDIS_URL") && warnings.contains("WAYBILL_OBJECTS=disk"), "{warnings}");
    assert_eq!(read_all(&with(&[])).unwrap().warnings(), [""; 0]);
}

#[test]
fn the_database_may_come_in_parts() {
    let parts = [
        ("AWS_REGION", "eu-central-1"),
        ("WAYBILL_PROVIDERS", "ses"),
        ("PGHOST", "db.internal"),
        ("PGUSER", "way bill"),
        ("PGPASSWORD", "p@ss/word:&?#%"),
        ("PGDATABASE", "waybill"),
        ("PGSSLMODE", "verify-full"),
    ];
    let config = read(&parts).unwrap();
    let options: sqlx::postgres::PgConnectOptions = config.database.url.expose().parse().unwrap();
    assert_eq!((options.get_host(), options.get_port()), ("db.internal", 5432));
    assert_eq!((options.get_username(), options.get_database()), ("way bill", Some("waybill")));
    let url = reqwest::Url::parse(config.database.url.expose()).unwrap();
    let password = url.query_pairs().find(|(name, _)| name == "password").map(|(_, value)| value.into_owned());
    assert_eq!(password.as_deref(), Some("p@ss/word:&?#%"));
    assert!(!format!("{config:?}").contains("p@ss"));
    // The whole wins over the parts.
    let mut both = parts.to_vec();
    both.push(("DATABASE_URL", "postgres://other/x"));
    assert_eq!(read(&both).unwrap().database.url.expose(), "postgres://other/x");

    let missing = read(&[("PGHOST", "db.internal"), ("PGSSLMODE", "yes")]).unwrap_err().to_string();
    for wanted in ["PGUSER: is not set", "PGDATABASE: is not set", "PGSSLMODE: `yes`: expected one of disable"] {
        assert!(missing.contains(wanted), "{wanted} in {missing}");
    }
    let none = read(&[]).unwrap_err().to_string();
    assert!(["DATABASE_URL", "PGHOST", "PGPASSWORD"].iter().all(|name| none.contains(name)), "{none}");
}

#[test]
fn the_password_of_redis_may_come_alone() {
    let redis = |url: &str| {
        read_all(&with(&[("REDIS_URL", url), ("WAYBILL_REDIS_PASSWORD", "a/b@c:d")]))
            .map(|config| config.redis_url.map(|url| url.expose().to_owned()).unwrap_or_default())
            .map_err(|errors| errors.to_string())
    };
    assert_eq!(redis("rediss://cache:6379").unwrap(), "rediss://:a%2Fb%40c%3Ad@cache:6379");
    assert_eq!(redis("redis://app@cache:6379/2").unwrap(), "redis://app:a%2Fb%40c%3Ad@cache:6379/2");
    assert_eq!(redis("rediss-cluster://cache:6379").unwrap(), "rediss-cluster://:a%2Fb%40c%3Ad@cache:6379");
    assert!(redis("redis://:other@cache").unwrap_err().contains("has a password already"));
    assert!(redis("").unwrap_err().contains("without REDIS_URL"));
}

#[test]
fn an_operator_needs_the_database_and_the_queue_and_nothing_else() {
    let operator = |values: &'static [(&'static str, &'static str)]| {
        Config::read_for_operator(Arc::new(move |name: &str| {
            values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        }))
    };
    assert_eq!(operator(&[("DATABASE_URL", "postgres://x")]).unwrap().adapters.queue, QueueChoice::Local);
    let errors = operator(&[("WAYBILL_QUEUE", "sqs"), ("WAYBILL_OBJECTS", "s3")]).unwrap_err().to_string();
    assert!(errors.contains("AWS_REGION") && errors.contains("DATABASE_URL"), "{errors}");
    assert!(!errors.contains("BUCKET") && !errors.contains("SENDGRID"), "{errors}");
}

#[test]
fn the_wait_for_the_renderer_is_its_own_timeout_and_three_seconds() {
    let topology: serde_json::Value =
        serde_json::from_str(include_str!("../../../../infra/topology.json")).expect("infra/topology.json");
    let timeout = Duration::from_secs(topology["renderer"]["timeout_s"].as_u64().unwrap() + 3);
    assert_eq!(Duration::from_millis(adapters::RENDERER_TIMEOUT_MS), timeout);
}

#[test]
fn a_provider_that_may_be_called_twice_counts_twice_in_the_timings() {
    let resend = [
        ("WAYBILL_PROVIDERS", "ses,resend"),
        ("WAYBILL_RESEND_API_KEY", "re_x"),
        ("WAYBILL_RESEND_TIMEOUT_MS", "7000"),
    ];
    let config = read_all(&with(&resend)).unwrap();
    let timeouts: Vec<u128> = config.settings.timings.provider_timeouts.iter().map(Duration::as_millis).collect();
    assert_eq!(timeouts, [10_000, 7_000, 7_000]);
}

#[test]
fn a_webhook_secret_that_is_none_is_named_and_not_repeated() {
    let errors = errors(&[("WAYBILL_RESEND_WEBHOOK_SECRET", "hunter2")]);
    assert!(errors.contains("WAYBILL_RESEND_WEBHOOK_SECRET") && !errors.contains("hunter2"), "{errors}");
    assert!(read_all(&with(&[("WAYBILL_RESEND_WEBHOOK_SECRET", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")])).is_ok());
}

#[test]
fn each_new_provider_beside_ses_fits_into_the_default_timings() {
    for (name, key) in [
        ("sendgrid", "WAYBILL_SENDGRID_API_KEY"),
        ("resend", "WAYBILL_RESEND_API_KEY"),
        ("postmark", "WAYBILL_POSTMARK_SERVER_TOKEN"),
        ("smtp", "WAYBILL_SMTP_URL"),
    ] {
        let order = format!("ses,{name}");
        assert_eq!(errors(&[("WAYBILL_PROVIDERS", &order), (key, "smtps://mx.example")]), "", "{name}");
    }
}
