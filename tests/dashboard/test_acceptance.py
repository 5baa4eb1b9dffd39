"""The twenty scenarios of acceptance: what a person does and sees. The table names the tests of each."""

import re
from pathlib import Path

SCENARIOS = {
    1: ["test_serve_starts_a_dashboard_that_asks_for_a_login"],
    2: ["test_six_wrong_passwords_make_the_right_one_wait_and_the_audit_log_has_it"],
    3: [
        "test_a_broker_that_hangs_holds_up_no_page_and_keeps_its_figures_marked_old",
        "test_the_overview_has_brokers_curves_and_what_the_doctor_finds",
    ],
    4: ["test_a_search_narrows_the_list_while_typing_and_the_address_holds_it"],
    5: ["test_a_topic_shows_its_queues_groups_and_curve_and_a_day_of_it"],
    6: [
        "test_readers_see_no_buttons_that_change_something",
        "test_a_role_that_is_too_low_gets_403_and_the_audit_log_has_it",
    ],
    7: ["test_a_message_is_sent_and_seen_live_and_its_link_opens_it"],
    8: [
        "test_a_message_is_sent_and_seen_live_and_its_link_opens_it",
        "test_the_live_tail_yields_what_matches_and_stops_its_pulls",
    ],
    9: ["test_a_long_search_is_a_job_with_progress_that_can_be_cancelled"],
    10: ["test_a_binary_body_is_guessed_and_a_chosen_form_is_remembered"],
    11: ["test_a_body_that_is_a_script_is_read_as_text"],
    12: ["test_a_lagging_group_shows_its_curve_how_far_behind_it_is_and_when_it_drains"],
    13: ["test_a_reset_is_previewed_and_done_by_hand", "test_a_reset_is_previewed_confirmed_and_told_by_queue"],
    14: ["test_a_group_whose_members_differ_shows_both_opinions"],
    15: ["test_chosen_dead_letters_are_resent_and_the_progress_survives_a_reload"],
    16: ["test_dead_letters_are_filtered_resent_once_and_exported"],
    17: ["test_the_trace_of_a_message_is_a_timeline"],
    18: ["test_a_grant_is_previewed_and_takes_effect_and_a_revocation_too"],
    19: ["test_an_id_of_a_foreign_host_makes_no_connection"],
    20: [
        "test_no_page_has_a_violation_of_accessibility_or_an_error_in_the_console",
        "test_an_ended_session_leads_politely_to_the_login_and_back",
    ],
}


def test_each_scenario_names_tests_that_there_are() -> None:
    text = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    there = set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))
    assert sorted(SCENARIOS) == list(range(1, 21))
    assert {name for names in SCENARIOS.values() for name in names} - there == set()
