//! The one style sheet. Light and dark follow the reader's system.

pub(super) const CSS: &str = r#"
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #e3e7ec; --card: #fff; --page: #f6f7f9;
  --link: #1a56b8; --ses: #a34a00; --ses-bg: #fff1e3; --sg: #0a5a9c; --sg-bg: #e4f1fc; --rs: #6b2fa0; --rs-bg: #f3e8fc; --pm: #6d5a00; --pm-bg: #fbf3cf; --sm: #19664a; --sm-bg: #e0f5ec; --warn: #a11d1d; --warn-bg: #fde8e8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e9f0; --soft: #9aa5b5; --line: #2b323d; --card: #1a1f27;
  --page: #12161c; --link: #82b1ff; --ses: #ffb877; --ses-bg: #3a2610; --sg: #8cc8ff; --sg-bg: #10304a; --rs: #d3a8ff; --rs-bg: #321a49; --pm: #f0da7a; --pm-bg: #383008; --sm: #86dcb9; --sm-bg: #0f3527;
  --warn: #ff9d9d; --warn-bg: #431a1a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
main, .bar { max-width: 1180px; margin: 0 auto; padding: 0 24px; }
main { padding-bottom: 48px; }
.bar { display: flex; align-items: center; gap: 16px; padding-top: 20px; padding-bottom: 12px; }
.bar h1 { margin: 0; font-size: 22px; letter-spacing: -.01em; }
.bar h1 a { color: inherit; }
.bar p { margin: 0; }
.bar form { margin-left: auto; }
input, button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 6px 12px; }
input { width: 260px; }
button { cursor: pointer; }
button:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
.totals { display: flex; flex-wrap: wrap; gap: 8px 20px; list-style: none; margin: 0 0 16px; padding: 0; color: var(--soft); }
.totals b { color: var(--ink); font-variant-numeric: tabular-nums; }
.totals .badge { margin-right: 6px; }
.totals .warn, .totals .warn b { color: var(--warn); }
.totals .warn { background: var(--warn-bg); border-radius: 6px; padding: 0 8px; }
table { border-collapse: collapse; width: 100%; }
.mails { background: var(--card); border: 1px solid var(--line); border-radius: 12px; border-spacing: 0; border-collapse: separate; overflow: hidden; }
.mails th { text-align: left; font-weight: 600; font-size: 12px; color: var(--soft); padding: 10px 14px; }
.mails td { padding: 10px 14px; border-top: 1px solid var(--line); vertical-align: top; }
.mails tbody tr:hover { background: color-mix(in srgb, var(--link) 5%, transparent); }
.time { white-space: nowrap; color: var(--soft); font-variant-numeric: tabular-nums; }
.to { overflow-wrap: break-word; min-width: 190px; max-width: 300px; }
td.subject { min-width: 220px; overflow-wrap: anywhere; }
td.subject a { font-weight: 600; }
.id { color: var(--soft); font: 12px/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; overflow-wrap: anywhere; }
.badge { display: inline-block; white-space: nowrap; border-radius: 999px; padding: 1px 10px; font-size: 12px; font-weight: 600; }
.badge.ses { color: var(--ses); background: var(--ses-bg); }
.badge.sendgrid { color: var(--sg); background: var(--sg-bg); }
.badge.resend { color: var(--rs); background: var(--rs-bg); }
.badge.postmark { color: var(--pm); background: var(--pm-bg); }
.badge.smtp { color: var(--sm); background: var(--sm-bg); }
.files { display: flex; flex-wrap: wrap; gap: 6px; margin: 0; }
td.files { display: table-cell; }
td.files .file { margin: 0 4px 4px 0; max-width: 230px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; vertical-align: top; }
.file { display: inline-block; max-width: 340px; overflow-wrap: anywhere; border: 1px solid var(--line); border-radius: 8px; padding: 1px 9px; font-size: 13px; background: var(--page); }
.file small { color: var(--soft); }
.note { color: var(--soft); font-size: 13px; }
.empty { text-align: center; color: var(--soft); padding: 72px 24px; }
.empty h1, .empty h2 { color: var(--ink); margin: 0 0 4px; font-size: 20px; }
h1.subject { margin: 4px 0 16px; font-size: 26px; line-height: 1.25; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 14px; margin: 28px 0 8px; color: var(--soft); font-weight: 600; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.facts dd.id { font-size: 13px; line-height: 1.75; }
iframe { width: 100%; height: 420px; min-height: 160px; resize: vertical; border: 1px solid var(--line); border-radius: 12px; background: #fff; color-scheme: light; }
pre { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.55 ui-monospace, SFMono-Regular, Menlo, monospace; }
details { margin-top: 28px; }
summary { cursor: pointer; font-size: 14px; font-weight: 600; color: var(--soft); margin-bottom: 8px; }
.count { font-weight: 400; }
.pairs { background: var(--card); border: 1px solid var(--line); border-radius: 12px; border-collapse: separate; border-spacing: 0; }
.pairs th, .pairs td { text-align: left; vertical-align: top; padding: 6px 18px; font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; overflow-wrap: anywhere; }
.pairs th { color: var(--soft); width: 220px; }
.pairs tr + tr > * { border-top: 1px solid var(--line); }
@media (max-width: 720px) { main, .bar { padding-left: 14px; padding-right: 14px; } .bar { flex-wrap: wrap; } input { width: 100%; }
  .bar form { flex: 1 1 160px; } .mails thead { display: none; } .mails td, td.files { display: block; border: 0; padding: 2px 14px; }
  .mails tr { display: block; padding: 10px 0; border-top: 1px solid var(--line); } }
"#;
