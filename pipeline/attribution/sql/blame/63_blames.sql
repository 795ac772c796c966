-- The requests of work_suspects, each with the stage that took most more than usual on the part of the time line that counts: TTFT before the first token, TPOT after it, e2e both. Excess = own ns - ps per unit x units / 1000 (rounded down), at least 0.
-- A part in which nobody knows what is usual is left out. Of equal excesses the innermost stage; without any, `other`.
INSERT INTO work_blames (window_from, run_id, request_id, tenant, model, cause, measure, stage, excess_ns, excesses, compared)
WITH
-- By number: stage n (1 is `other`) of part p stands at 32 (p - 1) + n; -1: not known.
usual AS (
    SELECT usual_window, model, arrayMap(place -> if(has(places, place), ps[indexOf(places, place)], toInt64(-1)), range(1, 97)) AS ps_per_unit
    FROM (
        SELECT
            window_from AS usual_window,
            model,
            groupArray(toUInt8(32 * (CAST(part, 'Int8') - 1) + indexOf({stages:Array(String)}, stage) + 1)) AS places,
            groupArray(toInt64(ps_per_unit)) AS ps
        FROM work_baselines
        GROUP BY window_from, model
    )
),
suspected AS (
    SELECT
        r.window_from AS window_from, r.request_id AS request_id, r.tenant AS tenant, r.model AS model, s.cause AS cause, s.measure AS measure,
        mapKeys(r.stage_ns) AS names,
        arrayMap(name -> indexOf({stages:Array(String)}, name) + 1, names) AS numbers,
        mapValues(r.stage_ns) AS own_ns,
        empty(r.stage_ttft_ns) AS unparted,
        if(unparted, arrayResize(CAST([], 'Array(UInt64)'), length(names)), mapValues(r.stage_ttft_ns)) AS early_ns,
        NOT unparted AND s.measure != 'tpot' AS counts_early,
        NOT unparted AND s.measure != 'ttft' AS counts_later,
        if(isNull(r.input_uncached_tokens), 0, greatest(assumeNotNull(r.input_uncached_tokens), 1)) AS input_units,
        if(isNull(r.output_tokens), 0, greatest(assumeNotNull(r.output_tokens), 1)) AS output_units,
        if(empty(u.ps_per_unit), arrayResize(CAST([], 'Array(Int64)'), 96, toInt64(-1)), u.ps_per_unit) AS ps_per_unit
    FROM (SELECT * FROM work_requests WHERE request_id IN (SELECT request_id FROM work_suspects)) AS r
    INNER JOIN work_suspects AS s ON s.request_id = r.request_id
    LEFT ANY JOIN usual AS u ON u.model = r.model AND u.usual_window = r.window_from
),
-- Per stage and part (whether it counts, own ns less usual ns).
compared AS (
    SELECT
        *,
        arrayMap(n -> multiIf(has({inner_numbers:Array(UInt8)}, n), 3, n = {prefill:UInt8}, 1, n = {decode:UInt8}, 2, 0), numbers) AS kinds,
        arrayMap(kind -> if(bitTest(kind, 0), input_units, 1), kinds) AS early_units,
        arrayMap(kind -> if(bitTest(kind, 1), output_units, 1), kinds) AS later_units,
        arrayMap(kind -> multiIf(kind = 1, input_units, kind = 2, output_units, 1), kinds) AS whole_units,
        arrayMap((n, units) -> counts_early AND units > 0 AND ps_per_unit[n] >= 0, numbers, early_units) AS early_known,
        arrayMap((n, units) -> counts_later AND units > 0 AND ps_per_unit[32 + n] >= 0, numbers, later_units) AS later_known,
        arrayMap((n, units) -> unparted AND units > 0 AND ps_per_unit[64 + n] >= 0, numbers, whole_units) AS whole_known,
        arrayMap(
            (n, whole, early, e, l, w, e_units, l_units, w_units) ->
                if(e, toInt128(early) - intDiv(toInt128(ps_per_unit[n]) * e_units, 1000), toInt128(0))
                + if(l, toInt128(whole) - early - intDiv(toInt128(ps_per_unit[32 + n]) * l_units, 1000), toInt128(0))
                + if(w, toInt128(whole) - intDiv(toInt128(ps_per_unit[64 + n]) * w_units, 1000), toInt128(0)),
            numbers, own_ns, early_ns, early_known, later_known, whole_known, early_units, later_units, whole_units
        ) AS more_ns,
        arrayCount((e, l, w) -> e OR l OR w, early_known, later_known, whole_known) AS known,
        arrayReverseSort(arrayFilter(x -> x.1 > 0, arrayZip(more_ns, numbers, names))) AS excesses
    FROM suspected
)
SELECT
    window_from, {run_id:UInt64}, request_id, tenant, model, cause, measure,
    if(empty(excesses), 'other', excesses[1].3),
    if(empty(excesses), 0, toUInt64(excesses[1].1)),
    mapFromArrays(excesses.3, arrayMap(ns -> toUInt64(ns), excesses.1)),
    known
FROM compared
