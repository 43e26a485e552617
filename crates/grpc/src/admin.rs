//! The service `Admin`: reports, keyspaces, work on files, copies, consumers.

use crate::proto::admin_server::Admin;
use crate::proto::verify_response::Damage;
use crate::proto::*;
use crate::reports;
use crate::requests::{self, check_writable};
use crate::shared::Shared;
use crate::status::status_of;
use esker::backup::Backups;
use esker::{Database, Keyspace, KeyspaceOptions, SeqNo};
use std::path::PathBuf;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Most bytes of the name of a copy: a component of a path.
const COPY_NAME_BYTES_MAX: usize = 128;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct AdminService(pub(crate) Arc<Shared>);

impl AdminService {
    /// Runs long work on a thread of administration.
    async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> esker::Result<R> + Send + 'static,
    ) -> Result<R, Status> {
        let database = self.0.database.clone();
        self.0.pools.admin.run(move || work(&database)).await?.map_err(|error| status_of(&error))
    }

    /// Reads what the database tells about itself. It takes locks of writers for a moment, and is no work on
    /// files, so it does not wait for such work.
    async fn report<R: Send + 'static>(
        &self,
        report: impl FnOnce(&Database) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let database = self.0.database.clone();
        self.0.pools.reads.run(move || report(&database)).await
    }

    /// Where a copy of this name lies.
    fn copy_path(&self, name: &str) -> Result<PathBuf, Status> {
        let Some(directory) = &self.0.config.copies else {
            return Err(Status::failed_precondition(
                "this server makes no copies; its operator can name a directory for them with --grpc-copies",
            ));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_right = (1..=COPY_NAME_BYTES_MAX).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(is_plain);
        if !is_right {
            return Err(Status::invalid_argument(format!(
                "{name:?} names no copy: 1 to {COPY_NAME_BYTES_MAX} letters, digits and `-_.`, not `.` first"
            )));
        }
        Ok(directory.join(name))
    }

    fn some_keyspace(&self, name: Option<&str>) -> Result<Option<Keyspace>, Status> {
        name.map(|name| requests::keyspace(&self.0.database, name)).transpose()
    }
}

/// A keyspace with these options, if there is none of the name.
fn create(database: &Database, name: &str, options: KeyspaceOptions) -> esker::Result<bool> {
    if database.keyspaces().iter().any(|known| known == name) {
        return Ok(false);
    }
    database.keyspace_with(name, options).map(|_| true)
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn stats(&self, _: Request<StatsRequest>) -> Result<Response<StatsResponse>, Status> {
        let leased = self.0.snapshots.len();
        self.report(move |database| reports::stats(&database.metrics(), leased)).await.map(Response::new)
    }

    async fn levels(&self, request: Request<LevelsRequest>) -> Result<Response<LevelsResponse>, Status> {
        let LevelsRequest { keyspace, tables } = request.into_inner();
        let only = self.some_keyspace(keyspace.as_deref())?.map(|keyspace| keyspace.name());
        let report = move |database: &Database| {
            let mut levels = database.levels();
            levels.retain(|levels| only.as_deref().is_none_or(|only| levels.name == only));
            reports::levels(&levels, tables)
        };
        let answer = self.report(report).await?;
        let bytes = prost::Message::encoded_len(&answer);
        self.0.check_message("the levels take", bytes)?;
        self.0.answer(answer, bytes)
    }

    async fn stalls(&self, _: Request<StallsRequest>) -> Result<Response<StallsResponse>, Status> {
        self.report(|database| reports::stalls(&database.stalls())).await.map(Response::new)
    }

    async fn list_keyspaces(
        &self,
        _: Request<ListKeyspacesRequest>,
    ) -> Result<Response<ListKeyspacesResponse>, Status> {
        Ok(Response::new(ListKeyspacesResponse { names: self.0.database.keyspaces() }))
    }

    async fn create_keyspace(
        &self,
        request: Request<CreateKeyspaceRequest>,
    ) -> Result<Response<CreateKeyspaceResponse>, Status> {
        let CreateKeyspaceRequest { name, options } = request.into_inner();
        check_writable(&name)?;
        let mut chosen = KeyspaceOptions::default();
        let mut options: Vec<(String, String)> = options.into_iter().collect();
        options.sort();
        for (option, value) in options {
            chosen = chosen.set(&option, &value).map_err(|error| status_of(&error))?;
        }
        let of = name.clone();
        if !self.work(move |database| create(database, &of, chosen)).await? {
            return Err(Status::already_exists(format!("there is a keyspace {name:?} already")));
        }
        Ok(Response::new(CreateKeyspaceResponse {}))
    }

    async fn drop_keyspace(
        &self,
        request: Request<DropKeyspaceRequest>,
    ) -> Result<Response<DropKeyspaceResponse>, Status> {
        let DropKeyspaceRequest { name } = request.into_inner();
        check_writable(&name)?;
        self.work(move |database| database.drop_keyspace(&name)).await?;
        Ok(Response::new(DropKeyspaceResponse {}))
    }

    async fn flush(&self, request: Request<FlushRequest>) -> Result<Response<FlushResponse>, Status> {
        let keyspace = self.some_keyspace(request.get_ref().keyspace.as_deref())?;
        self.work(move |database| keyspace.map_or_else(|| database.flush(), |keyspace| keyspace.flush()))
            .await?;
        Ok(Response::new(FlushResponse {}))
    }

    async fn compact(&self, request: Request<CompactRequest>) -> Result<Response<CompactResponse>, Status> {
        let CompactRequest { keyspace, range } = request.into_inner();
        let bounds = requests::bounds(range.as_ref())?;
        match self.some_keyspace(keyspace.as_deref())? {
            Some(keyspace) => self.work(move |_| keyspace.compact(bounds)).await?,
            None if range.is_some() => {
                return Err(Status::invalid_argument("a range is given without the keyspace that it is of"));
            }
            None => self.work(Database::compact_all).await?,
        }
        Ok(Response::new(CompactResponse {}))
    }

    async fn checkpoint(
        &self,
        request: Request<CheckpointRequest>,
    ) -> Result<Response<CheckpointResponse>, Status> {
        let path = self.copy_path(&request.get_ref().name)?;
        let report = self.work(move |database| database.checkpoint(path)).await?;
        Ok(Response::new(CheckpointResponse {
            sequence_number: report.seqno.get(),
            linked_tables: report.linked_tables,
            linked_bytes: report.linked_bytes,
            written_tables: report.written_tables,
            written_bytes: report.written_bytes,
        }))
    }

    async fn backup(&self, request: Request<BackupRequest>) -> Result<Response<BackupResponse>, Status> {
        let path = self.copy_path(&request.get_ref().name)?;
        let report = self.work(move |database| database.backup(&Backups::new(path))).await?;
        Ok(Response::new(BackupResponse {
            id: report.id.get().into(),
            sequence_number: report.seqno.get(),
            tables: report.tables,
            bytes: report.bytes,
            copied_tables: report.copied_tables,
            copied_bytes: report.copied_bytes,
        }))
    }

    async fn verify(&self, _: Request<VerifyRequest>) -> Result<Response<VerifyResponse>, Status> {
        let report = self.work(Database::verify).await?;
        let damage = report.damage.iter().map(|damage| Damage {
            keyspace: damage.keyspace.clone(),
            file: damage.file.display().to_string(),
            description: damage.error.to_string(),
        });
        Ok(Response::new(VerifyResponse {
            tables: report.tables,
            blocks: report.blocks,
            entries: report.entries,
            bytes: report.bytes,
            damage: damage.collect(),
        }))
    }

    async fn create_consumer(
        &self,
        request: Request<CreateConsumerRequest>,
    ) -> Result<Response<CreateConsumerResponse>, Status> {
        let CreateConsumerRequest { name, after } = request.into_inner();
        let create = move |database: &Database| match after {
            None => database.create_consumer(&name).map(drop),
            Some(after) => database.create_consumer_at(&name, SeqNo::new(after)).map(drop),
        };
        self.work(create).await?;
        Ok(Response::new(CreateConsumerResponse {}))
    }

    async fn list_consumers(
        &self,
        _: Request<ListConsumersRequest>,
    ) -> Result<Response<ListConsumersResponse>, Status> {
        let consumer = |info: esker::changes::ConsumerInfo| list_consumers_response::Consumer {
            name: info.name,
            acknowledged: info.acknowledged.get(),
            newer_operations: info.newer_operations,
            kept_log_bytes: info.kept_bytes,
            cut_off: info.is_cut_off,
        };
        let consumers = self.report(Database::consumers).await?.into_iter().map(consumer).collect();
        Ok(Response::new(ListConsumersResponse { consumers }))
    }

    async fn drop_consumer(
        &self,
        request: Request<DropConsumerRequest>,
    ) -> Result<Response<DropConsumerResponse>, Status> {
        let DropConsumerRequest { name } = request.into_inner();
        self.work(move |database| database.drop_consumer(&name)).await?;
        Ok(Response::new(DropConsumerResponse {}))
    }
}
