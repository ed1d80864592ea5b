"""IDs are made from their parts and read back into them; partitions are even and stable."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import ids

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@given(st.uuids(), st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(4000, 1, 1)))
def test_a_run_id_is_read_back(job: UUID, at: datetime) -> None:
    at = at.replace(tzinfo=UTC)
    text = ids.run_id(job, at)
    key = ids.parse_run_id(text)
    assert key is not None
    assert (key.job_id, key.scheduled_at, key.partition) == (job, at, ids.partition_of(job))
    assert str(key) == text


@given(st.text(max_size=70))
def test_other_text_is_no_id(text: str) -> None:
    assert ids.parse_run_id(text) is None
    assert ids.parse_job_id(text) is None


@pytest.mark.parametrize("at", [datetime(1969, 12, 31, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)])
def test_a_nominal_time_that_no_id_can_hold_is_refused(at: datetime) -> None:
    with pytest.raises(ValueError, match="between 1970 and 4253"):
        ids.run_id(UUID(int=1), at)


def test_a_job_id_is_a_version_7_uuid_in_the_partition_of_its_name() -> None:
    job = ids.new_job_id("default", "nightly", AT)
    assert job.version == 7
    assert job.variant == "specified in RFC 4122"
    assert ids.partition_of(job) == ids.partition_of_name("default", "nightly")
    assert ids.parse_job_id(ids.format_job_id(job)) == job
    assert ids.new_job_id("default", "nightly", AT) != job


def test_job_ids_sort_by_creation_time() -> None:
    made = [ids.new_job_id("default", f"job-{n}", AT + timedelta(milliseconds=n)) for n in range(100)]
    assert sorted(made) == made


def test_run_ids_of_a_job_sort_by_nominal_time() -> None:
    job = ids.new_job_id("default", "nightly", AT)
    made = [ids.run_id(job, AT + timedelta(microseconds=7**n)) for n in range(18)]
    assert sorted(made) == made


def test_names_spread_evenly_over_the_partitions() -> None:
    counts = Counter(ids.partition_of_name("default", f"job-{n}") for n in range(102_400))
    assert len(counts) == ids.PARTITIONS
    assert 50 < min(counts.values()) <= max(counts.values()) < 160


def test_the_partition_of_a_name_never_changes() -> None:
    """A change here would strand every job that exists."""
    assert ids.partition_of_name("default", "nightly-close") == 489
    assert ids.partition_of(UUID("01890a5d-ac96-774b-bcce-b302099a8057")) == 0x057
