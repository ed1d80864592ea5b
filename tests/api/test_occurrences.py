"""What became of nominal times."""

from __future__ import annotations

from datetime import datetime, timedelta

from api.conftest import Api
from tocsin.clock import now


def test_past_outcomes_gaps_and_predictions_stand_in_one_order(api: Api) -> None:
    base = now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)
    schedule = {"every": "1h", "anchor": base.isoformat(), "start": (base + timedelta(hours=5)).isoformat()}
    job = api.job(schedule=schedule)
    api.rows(
        "INSERT INTO gaps SELECT partition_id, job_id, %s, %s, 3, false, 1 FROM jobs RETURNING 1",
        base, base + timedelta(hours=2),
    )  # fmt: skip
    api.http.post("/jobs/name:nightly/runs", json={"nominalTime": (base + timedelta(hours=3)).isoformat()})
    params = {"from": base.isoformat(), "to": (base + timedelta(hours=8)).isoformat()}
    told = api.http.get("/jobs/name:nightly/occurrences", params=params).json()
    assert told["truncated"] is False
    seen = [(item["outcome"], _hours(item["nominalTime"], base)) for item in told["items"]]
    assert seen == [
        ("gap", 0), ("run", 3), ("pending", 5), ("pending", 6), ("predicted", 7), ("predicted", 8),
    ]  # fmt: skip
    assert (told["items"][0]["count"], _hours(told["items"][0]["lastTime"], base)) == (3, 2)
    assert told["items"][1]["status"] == "scheduled"
    cut = api.http.get("/jobs/name:nightly/occurrences", params={**params, "limit": "2"}).json()
    assert (len(cut["items"]), cut["truncated"]) == (2, True)
    api.http.delete(f"/jobs/{job['jobId']}")
    left = api.http.get(f"/jobs/{job['jobId']}/occurrences", params=params).json()["items"]
    assert [item["outcome"] for item in left] == ["gap", "run", "gap"]


def _hours(text: str, base: datetime) -> int:
    return (datetime.fromisoformat(text) - base) // timedelta(hours=1)
