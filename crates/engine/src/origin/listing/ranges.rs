//! Lists a whole key space with many requests in flight, each key exactly once: asks what the plan says (`plan`), and
//! hands on what comes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::error::Result;
use crate::origin::listing::Start;
use crate::origin::listing::page::{Page, PageEntry};
use crate::origin::listing::plan::{Plan, Question};

/// The most that S3 and OSS give at once.
pub(super) const KEYS_PER_PAGE: usize = 1000;

/// Where pages come from.
#[async_trait]
pub(in crate::origin) trait PageSource: Send + Sync {
    /// At most `limit` keys that begin with `prefix`.
    async fn page(&self, prefix: &str, start: Start<'_>, limit: usize) -> Result<Page>;
}

/// Lists all keys below `prefix`; gives them to `deliver` page by page. `requests`: how many at the same time.
pub(in crate::origin) async fn list_all<D, F>(
    source: Arc<dyn PageSource>,
    prefix: &str,
    requests: usize,
    mut deliver: D,
) -> Result<()>
where
    D: FnMut(Vec<PageEntry>) -> F,
    F: Future<Output = Result<()>>,
{
    let mut plan = Plan::new(prefix, requests.max(1));
    let mut under_way = FuturesUnordered::new();
    while plan.is_open() {
        while let Some(question) = plan.next_question() {
            under_way.push(ask(source.clone(), question));
        }
        let Some((answer, question)) = under_way.next().await else { break };
        match question {
            Question::Test { expected, .. } => plan.judge(answer, &expected),
            Question::Range(range) => deliver(plan.take_in(answer?, range)?).await?,
        }
    }
    Ok(())
}

async fn ask(source: Arc<dyn PageSource>, question: Question) -> (Result<Page>, Question) {
    let page = match &question {
        Question::Range(range) => {
            let start = range.after.as_deref().map_or(Start::Beginning, Start::After);
            source.page(&range.prefix, start, KEYS_PER_PAGE).await
        }
        Question::Test { prefix, .. } => source.page(prefix, Start::Beginning, 1).await,
    };
    (page, question)
}
