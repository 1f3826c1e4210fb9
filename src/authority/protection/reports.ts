/**
 * What an access report leaves in the owner's ledger: the calls, each once, and which numbers of a run never
 * came. Contract: "Events" (row 2), "Protection API" (/audit/access).
 */
import { gapsBetween } from '../../rules/report-numbers.ts'
import { recordEmergencyCall } from '../../storage/authority/membership/emergencies.ts'
import {
  grantsOfFamilies,
  isTouched,
  recordTouches,
  touchKey,
  type ReportedCall,
} from '../../storage/authority/ledger/last-access.ts'
import { hearInstances, tellMissing } from '../../storage/authority/ledger/report-instances.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { tellEmergencyFault } from '../organization/emergency-faults.ts'
import type { AccessRecord, AccessReportEntry, ReportWord, Reporter } from '../../surface/access-reports.ts'

/**
 * Records calls in the order of their report. A report that names no grant is not recorded; if it has a
 * number, that number is reported as missing.
 */
export async function recordReports(
  tx: Tx,
  by: Reporter,
  { reports, now }: { reports: readonly AccessReportEntry[]; now: () => number },
): ReturnType<AccessRecord['record']> {
  const unnamed = reports.filter(({ jti }) => jti === undefined).map(({ family }) => family)
  const grants = await grantsOfFamilies(tx, by.owner, unnamed)
  const calls = reports.map(report => {
    const { family, tool, summary, at = now(), at_ms, judged, instance, n } = report
    const jti = report.jti ?? grants.get(family) ?? ''
    const entry = { tool, at, jti, client_id: by.client_id }
    const named = {
      ...(at_ms === undefined ? {} : { at_ms }),
      ...(summary === undefined ? {} : { summary }),
      ...(judged === undefined ? {} : { judged }),
      ...(instance === undefined ? {} : { instance, n }),
    }
    return { key: touchKey(by.client_id, report), family, jti, data: { ...entry, ...named } }
  })
  const numbers = numbersOf(
    reports.map((_report, place) => place),
    reports,
  )
  // Before the calls, so that two requests with reports of one run wait for each other here and nowhere else.
  const settled = await hearReports(tx, by, numbers)
  const recorded = await withEmergencies(tx, by, { calls, touched: await recordTouches(tx, by, calls) })
  const lost = numbersOf(recorded.unknown, reports)
  const gaps = [...numbers].flatMap(([instance, batch]) => {
    const unknown = new Set(lost.get(instance))
    const known = batch.filter(n => !unknown.has(n))
    return gapsBetween(settled.get(instance)!, Math.max(...batch), known).map(gap => ({ ...gap, instance }))
  })
  await tellMissing(tx, by, gaps)
  return recorded
}

/**
 * The rest of the calls may be under emergencies that were accepted for her: they are no grants of hers, and
 * are looked for only if there is a call under none. One yes is for one call: a second one is told to her.
 */
async function withEmergencies(
  tx: Tx,
  by: Reporter,
  { calls, touched }: { calls: readonly ReportedCall[]; touched: { recorded: number; unknown: number[] } },
): Promise<{ recorded: number; unknown: number[] }> {
  let { recorded } = touched
  const unknown: number[] = []
  for (const place of touched.unknown) {
    const call = calls[place]!
    const found = call.jti === '' ? 'unknown' : await recordEmergencyCall(tx, by, call)
    if (found === 'unknown') unknown.push(place)
    else if (found.isNew) {
      recorded += 1
      if (found.reports > 1)
        await tellEmergencyFault(tx, by.owner, { what: 'used_again', jti: call.jti, ...found.accepted })
    }
  }
  return { recorded, unknown }
}

/** Takes note of how far a run says that it has come: what of it never came is missing. */
export async function hearInstance(
  tx: Tx,
  by: Reporter,
  { instance, n, ended = false }: ReportWord,
): Promise<void> {
  const settled = (await hearInstances(tx, by, [{ instance, n, ended }])).get(instance)!
  const isKnown = settled === 0 && (await areRecorded(tx, by, instance, [n]))
  const gaps = isKnown ? [] : gapsBetween(settled, n, [])
  await tellMissing(
    tx,
    by,
    gaps.map(gap => ({ ...gap, instance })),
  )
}

/** The numbers of the reports at these places, by run. */
function numbersOf(places: readonly number[], reports: readonly AccessReportEntry[]): Map<string, number[]> {
  const numbers = new Map<string, number[]>()
  for (const place of places) {
    const { instance, n } = reports[place]!
    if (instance === undefined || n === undefined) continue
    const batch = numbers.get(instance)
    if (batch === undefined) numbers.set(instance, [n])
    else batch.push(n)
  }
  return numbers
}

/** Up to where the numbers of each run were settled before these came. */
async function hearReports(
  tx: Tx,
  by: Reporter,
  numbers: ReadonlyMap<string, number[]>,
): Promise<Map<string, number>> {
  if (numbers.size === 0) return new Map()
  const words = [...numbers].map(([instance, batch]) => ({ instance, n: Math.max(...batch), ended: false }))
  const settled = await hearInstances(tx, by, words)
  for (const [instance, batch] of numbers) {
    const first = Math.min(...batch)
    if (settled.get(instance) !== 0 || first === 1) continue
    if (await areRecorded(tx, by, instance, [first - 1, first])) settled.set(instance, first - 1)
  }
  return settled
}

/**
 * Whether the ledger has any of these calls of a run: one that was so long silent that its row was swept did
 * not lose what came before.
 */
function areRecorded(tx: Tx, by: Reporter, instance: string, numbers: readonly number[]): Promise<boolean> {
  return isTouched(
    tx,
    by.owner,
    numbers.map(n => touchKey(by.client_id, { instance, n })),
  )
}
