"""Token, session, names and origins, with secrets made up here."""

from __future__ import annotations

import pytest
from tandem_dashboard.access import Access, Refused

HOST = "127.0.0.1:8001"


@pytest.fixture
def access() -> Access:
    secrets = iter(["the-token", "the-path", "the-session"])
    return Access(8001, lambda: next(secrets))


def test_a_token_is_exchanged_once_for_a_cookie_that_holds_below_a_secret_path(access):
    base, cookie = access.exchange("the-token")
    assert base == "/api/the-path"
    assert cookie == "tandem_dashboard=the-session; Path=/api/the-path/; HttpOnly; SameSite=Strict"
    assert access.check_session("/api/the-path/events", "a=b; tandem_dashboard=the-session") == "/events"
    with pytest.raises(Refused, match="works once"):
        access.exchange("the-token")


@pytest.mark.parametrize("token", ["", "the-toke", "the-token ", "the-tokén", "\ud800"])
def test_another_token_is_refused_and_does_not_use_the_right_one_up(access, token):
    with pytest.raises(Refused, match="not the one"):
        access.exchange(token)
    access.exchange("the-token")


@pytest.mark.parametrize("path, cookies", [("/api/the-path/events", None), ("/api/the-path/events", ""), ("/api/the-path/events", "tandem_dashboard=the-token"),
                                           ("/api/the-path/events", "tandem_dashboard=the-session2"), ("/api/the-path/events", "other=the-session"), ("/events", "tandem_dashboard=the-session"),
                                           ("/api/the-patH/events", "tandem_dashboard=the-session"), ("/api/the-path/events", "\x00;;=,")])
def test_without_the_session_nothing_is_told(access, path, cookies):
    access.exchange("the-token")
    with pytest.raises(Refused, match="no session"):
        access.check_session(path, cookies)


def test_cookies_of_others_do_not_shut_the_user_out(access):
    access.exchange("the-token")
    assert access.check_session("/api/the-path/x", 'odd="{; tandem_dashboard=theirs; tandem_dashboard=the-session; =;') == "/x"


def test_the_session_holds_only_once_the_token_was_exchanged(access):
    with pytest.raises(Refused):
        access.check_session("/api/the-path/events", "tandem_dashboard=the-session")


@pytest.mark.parametrize("method, host, origin", [("GET", HOST, None), ("GET", "localhost:8001", None), ("PUT", HOST, "http://127.0.0.1:8001"), ("POST", "localhost:8001", "http://localhost:8001")])
def test_its_own_page_may_ask(access, method, host, origin):
    access.check_source(method, host, origin)


@pytest.mark.parametrize("method, host, origin, why", [
    ("GET", None, None, "name"), ("GET", "tandem.test:8001", None, "name"), ("GET", "127.0.0.1", None, "name"), ("GET", "127.0.0.1:8002", None, "name"),
    ("GET", HOST, "http://tandem.test", "elsewhere"), ("PUT", HOST, "http://127.0.0.1:8002", "elsewhere"), ("PUT", HOST, "https://127.0.0.1:8001", "elsewhere"), ("POST", HOST, "null", "elsewhere"),
    ("PUT", HOST, None, "Origin"), ("POST", HOST, None, "Origin")])
def test_other_names_and_other_pages_are_refused(access, method, host, origin, why):
    with pytest.raises(Refused, match=why):
        access.check_source(method, host, origin)
