//! The run: what is measured, in order.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use crate::{
    books::{self, Books},
    counters::Counters,
    load::{self, Load, percentile},
    plan::Plan,
    process::Waybill,
    report::{Cold, Counted, Idle, Latency, Report, per_second},
    statements, versus,
    world::{Kind, World},
};

/// A phase whose books don't balance. It ends the run: nobody wants to know how fast mails are lost.
#[derive(Debug)]
struct Unbalanced;

impl std::fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the books don't balance")
    }
}

impl std::error::Error for Unbalanced {}

pub(crate) async fn run(plan: &Plan) -> Result<Report> {
    let world = Arc::new(World::make().await?);
    let view = statements::available(&world).await;
    let mut bench = Bench { plan, world, view, report: Report::default() };
    match bench.all().await {
        Ok(()) => bench.report.complete = !plan.only_pairs,
        Err(error) if error.is::<Unbalanced>() => say("the run ends here, with the books as they are"),
        Err(error) => return Err(error),
    }
    if bench.report.broken().is_empty() {
        bench.world.tidy();
    }
    Ok(bench.report)
}

struct Bench<'a> {
    plan: &'a Plan,
    world: Arc<World>,
    /// PostgreSQL tells which statements it saw.
    view: bool,
    report: Report,
}

impl Bench<'_> {
    async fn all(&mut self) -> Result<()> {
        if self.plan.only_pairs {
            return self.compare().await;
        }
        say("waybill all, SES first");
        let mut process = Waybill::start(&self.world, "ses,sendgrid").await?;
        self.idle(&process).await?;
        self.cold(&mut process).await?;
        self.warm_up(&mut process, "warm").await?;
        let memory = process.watch_memory();
        self.report.load =
            self.counted(&mut process, &self.notes("load", self.plan.events, self.plan.recipients)).await?;
        self.other_recipients(&mut process).await?;
        self.latency(&mut process).await?;
        self.report.rss_mb = memory.most_mb();
        let orders = Load {
            kind: Kind::Order,
            phase: "order".to_owned(),
            events: self.plan.document_events,
            recipients: self.plan.recipients,
        };
        self.report.with_document = self.counted(&mut process, &orders).await?;
        self.report.document_size =
            sqlx::query_scalar("/* bench */ SELECT coalesce(avg(size_bytes), 0)::float8 FROM documents")
                .fetch_one(self.world.store.pool())
                .await?;
        self.report.rss_after_mb = process.rss_mb()?;
        self.report.log_complaints = process.complaints();
        process.stop().await?;
        self.sendgrid().await?;
        self.compare().await
    }

    /// Beside the peer.
    async fn compare(&mut self) -> Result<()> {
        let Some(pairs) = self.plan.pairs else { return Ok(()) };
        let mut books = Books::default();
        let versus = versus::run(&self.world, self.plan.quick, pairs, &mut books).await;
        self.close(&books)?;
        let versus = versus?;
        let table = self.world.folder.with_file_name("versus.md");
        std::fs::write(&table, versus.to_markdown()).with_context(|| format!("writing {}", table.display()))?;
        eprintln!("{}\n   (also in {})", versus.to_markdown(), table.display());
        versus.missed().iter().for_each(|missed| say(&format!("missed goal: {missed}")));
        self.report.versus = Some(versus);
        Ok(())
    }

    /// The same load through the other adapter.
    async fn sendgrid(&mut self) -> Result<()> {
        say("waybill all, SendGrid first");
        let mut process = Waybill::start(&self.world, "sendgrid,ses").await?;
        self.warm_up(&mut process, "sg-warm").await?;
        let load = self.notes("sg-load", self.plan.sendgrid_events, self.plan.recipients);
        self.report.sendgrid = self.counted(&mut process, &load).await?;
        let requests = self.world.sink.requests("sendgrid");
        ensure!(requests >= load.deliveries(), "only {requests} requests went to SendGrid");
        self.report.log_complaints += process.complaints();
        Ok(())
    }

    async fn other_recipients(&mut self, process: &mut Waybill) -> Result<()> {
        for (phase, count) in ["one", "many", "more"].into_iter().zip(&self.plan.other_recipients) {
            let events = (self.plan.events * self.plan.recipients / count).min(self.plan.events);
            let counted = self.counted(process, &self.notes(phase, events, *count)).await?;
            self.report.recipients.push((*count, counted));
        }
        Ok(())
    }

    fn notes(&self, phase: &str, events: usize, recipients: usize) -> Load {
        Load { kind: Kind::Note, phase: phase.to_owned(), events, recipients }
    }

    /// What a process costs that has nothing to do.
    async fn idle(&mut self, process: &Waybill) -> Result<()> {
        let before = Counters::read(&self.world, process).await?;
        tokio::time::sleep(self.plan.idle).await;
        let cost = Counters::read(&self.world, process).await? - before;
        let seconds = self.plan.idle.as_secs_f64();
        let idle = Idle { rss_mb: process.rss_mb()?, sql_per_s: cost.sql / seconds, queue_per_s: cost.queue / seconds };
        say(&format!("idle: {:.1} MB, {:.1} statements/s", idle.rss_mb, idle.sql_per_s));
        self.report.idle = idle;
        Ok(())
    }

    /// The first event of a fresh process.
    async fn cold(&mut self, process: &mut Waybill) -> Result<()> {
        self.world.forget();
        let load = self.notes("cold", 1, 1);
        let started = load::closed(&self.world, &load).await?;
        let (books, last) = books::balance(&self.world, process, load.deliveries()).await?;
        self.close(&books)?;
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1_000.0;
        self.report.cold = Cold { ready_ms: ms(process.ready_after), first_mail_ms: ms(last - started) };
        Ok(())
    }

    async fn warm_up(&mut self, process: &mut Waybill, phase: &str) -> Result<()> {
        self.world.forget();
        let load = self.notes(phase, self.plan.warm_up, self.plan.recipients);
        load::closed(&self.world, &load).await?;
        let (books, _) = books::balance(&self.world, process, load.deliveries()).await?;
        self.close(&books)
    }

    /// A closed loop with counters before and after. Everything in between counts: the scheduler's looks, the last half-empty batches.
    async fn counted(&mut self, process: &mut Waybill, load: &Load) -> Result<Counted> {
        self.world.forget();
        if self.view {
            statements::forget(&self.world).await?;
        }
        let before = Counters::read(&self.world, process).await?;
        let started = load::closed(&self.world, load).await?;
        let (books, last) = books::balance(&self.world, process, load.deliveries()).await?;
        let cost = Counters::read(&self.world, process).await? - before;
        let seen = if self.view { Some(statements::seen(&self.world).await?) } else { None };
        self.close(&books)?;
        let wanted = load.deliveries();
        if let Some(seen) = &seen {
            eprintln!("{}", statements::table(seen, wanted));
        }
        let calls = seen.map(|seen| statements::calls(&seen) as f64);
        let counted = Counted::new(wanted, &cost, calls, per_second(wanted, last - started));
        say(&format!("{}: {counted}", load.phase));
        Ok(counted)
    }

    async fn latency(&mut self, process: &mut Waybill) -> Result<()> {
        self.world.forget();
        let events = (self.plan.latency.as_secs_f64() * f64::from(self.plan.rate)) as usize;
        let load = self.notes("open", events, self.plan.recipients);
        let open = load::open(&self.world, &load, self.plan.rate).await?;
        let (books, _) = books::balance(&self.world, process, load.deliveries()).await?;
        self.close(&books)?;
        let found = open.latencies(&self.world, &load.phase);
        ensure!(
            found.len() as u64 == load.deliveries(),
            "{} mails have a known post, not {}",
            found.len(),
            load.deliveries()
        );
        let latency = Latency {
            rate: self.plan.rate,
            p50_ms: percentile(&found, 0.50),
            p95_ms: percentile(&found, 0.95),
            p99_ms: percentile(&found, 0.99),
            latest_start_ms: open.latest_start.as_secs_f64() * 1_000.0,
        };
        say(&format!(
            "{} events/s, open loop: p50 {:.0} ms, p95 {:.0} ms",
            latency.rate, latency.p50_ms, latency.p95_ms
        ));
        self.report.latency = latency;
        Ok(())
    }

    /// Adds a phase to the run's books.
    fn close(&mut self, books: &Books) -> Result<()> {
        self.report.deliveries += books.wanted;
        self.report.lost += books.lost;
        self.report.duplicates += books.duplicates;
        if books.lost + books.duplicates > 0 {
            say(&format!("the books don't balance: {books:?}"));
            return Err(Unbalanced.into());
        }
        Ok(())
    }
}

pub(crate) fn say(text: &str) {
    eprintln!("   {text}");
}
