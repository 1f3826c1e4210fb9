/**
 * Owns the comparison of what tools need with what the authorities have on record and what owners offer: a
 * call that no approval could let through is told to the operator before an owner is asked. Contract:
 * "Protection API" (/perm), "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import type { AuthorityClient, Need, ScopeOffer } from '../authorities/authority-client.ts'
import { deadlineAt } from '../deadline.ts'
import type { Route, Tool } from '../request/routes.ts'

/** One of an owner's resources; a part of `Route`. */
export interface NeedyRoute extends Pick<Route, 'owner' | 'authority' | 'registersItself'> {
  client: Pick<AuthorityClient, 'of' | 'offerOf' | 'recordFault'>
  tools: Route['tools']
}

export interface ToolNeedsOptions {
  /** Told once of each fault, in a sentence. */
  onFault: (sentence: string) => void
  /** The pause after the first look, in milliseconds; it doubles from look to look, up to 5 minutes. */
  firstPauseMs?: number
}

export interface ToolNeeds {
  /** Looks now. Call this when the documents are served, and when other tools are. */
  begin(): void
  stop(): void
}

const FIRST_PAUSE_MS = 10_000
const PAUSE_MS_MAX = 300_000
const ANSWER_MS_MAX = 5_000
/** Of the needs of all routes in one look: a sidecar with thousands of tools does not flood an authority. */
const ASKED_MAX = 200
/** Tools that a sentence names. */
const NAMED_MAX = 10

/**
 * Asks each authority about the resources and scopes of the tools, and asks again later about those that had
 * a fault or got no answer. Resource servers that register themselves are left out, because their authority
 * reads what they publish. An authority that is away is asked again and not complained of.
 */
export function watchToolNeeds(routes: () => readonly NeedyRoute[], options: ToolNeedsOptions): ToolNeeds {
  const { onFault, firstPauseMs = FIRST_PAUSE_MS } = options
  const met = new WeakMap<object, Set<string>>()
  const sentences = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let isLooking = false
  let isDue = false
  let pauseMs = firstPauseMs

  const look = async (): Promise<void> => {
    let left = ASKED_MAX
    for (const route of routes()) {
      if (stopped || left <= 0) break
      if (route.registersItself === true || route.client.recordFault() !== undefined) continue
      const known = met.get(route.client) ?? new Set<string>()
      met.set(route.client, known)
      const open = needsOf(route.tools)
        .filter(({ key }) => !known.has(key))
        .slice(0, left)
      left -= open.length
      const faults = await faultsOf(route, open, ({ key }) => known.add(key))
      for (const sentence of faults) {
        if (!sentences.has(sentence) && !stopped) onFault(sentence)
        sentences.add(sentence)
      }
    }
  }
  const lookAndRest = async (): Promise<void> => {
    isLooking = true
    do {
      isDue = false
      await look()
    } while (isDue)
    isLooking = false
    if (stopped) return
    timer = setTimeout(() => void lookAndRest(), pauseMs)
    timer.unref()
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  }
  return {
    begin: () => {
      clearTimeout(timer)
      pauseMs = firstPauseMs
      isDue = true
      if (!isLooking) void lookAndRest()
    },
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** What several tools of a route need alike. */
interface SharedNeed extends Need {
  key: string
  tools: string[]
}

function needsOf(tools: ReadonlyMap<string, Tool>): SharedNeed[] {
  const needs = new Map<string, SharedNeed>()
  for (const { tool, resource_id, scopes } of tools.values()) {
    const resource_scopes = [...scopes].sort()
    const key = JSON.stringify([resource_id, resource_scopes])
    const need = needs.get(key) ?? { key, resource_id, resource_scopes, tools: [] }
    need.tools.push(tool)
    needs.set(key, need)
  }
  return [...needs.values()]
}

/**
 * One sentence for each kind of fault. Ends at the first outage: the rest is asked about in the next look.
 */
async function faultsOf(
  route: NeedyRoute,
  needs: readonly SharedNeed[],
  onMet: (need: SharedNeed) => void,
): Promise<string[]> {
  const clock = (): number => performance.now()
  const unregistered: SharedNeed[] = []
  const ungoverned: SharedNeed[] = []
  const sentences: string[] = []
  for (const need of needs) {
    let offer: ScopeOffer
    try {
      offer = await route.client.offerOf(need, deadlineAt(clock() + ANSWER_MS_MAX, clock))
    } catch {
      break
    }
    if (offer.kind === 'unknown_resource') unregistered.push(need)
    else if (offer.kind === 'unknown_scope') sentences.push(ofUnknownScopes(route, need, offer.sentence))
    else if (offer.scopes?.length === 0) ungoverned.push(need)
    else if (need.resource_scopes.some(scope => offer.scopes?.includes(scope) === false))
      sentences.push(ofScopesNotOffered(route, need, offer.scopes!))
    else onMet(need)
  }
  if (unregistered.length > 0) sentences.push(ofUnregistered(route, unregistered))
  if (ungoverned.length > 0) sentences.push(ofUngoverned(route, ungoverned))
  return sentences
}

function ofUnregistered({ owner, authority, client }: NeedyRoute, needs: readonly SharedNeed[]): string {
  return `${owner}: ${toolsOf(needs)} cannot be called. ${authority} does not have ${resourcesOf(needs)} (resource_id of the tool here) among the resources of the client_id ${client.of.client_id} (id of a resource in the file of UMA_AS_PROVISION, for a joint account of UMA_TALLY_PROVISION). Make the two equal.`
}

function ofUnknownScopes({ owner, authority }: NeedyRoute, need: SharedNeed, sentence: string): string {
  return `${owner}: ${toolsOf([need])} cannot be called. It needs ${need.resource_scopes.join(' ')} of ${need.resource_id} (scopes of the tool here), and ${authority} has other scopes on record (resource_scopes of the resource in the file of UMA_AS_PROVISION): ${sentence}`
}

function ofUngoverned({ owner, authority }: NeedyRoute, needs: readonly SharedNeed[]): string {
  return `${owner}: nobody can be let in to ${toolsOf(needs)}, because no tier at ${authority} has ${resourcesOf(needs)} (resource_id of the tool here, resources of a tier there). The owner puts it into a tier with \`usher owner tier apply\`; until then every agent is refused.`
}

function ofScopesNotOffered(
  { owner, authority }: NeedyRoute,
  need: SharedNeed,
  offered: readonly string[],
): string {
  return `${owner}: nobody can be let in to ${toolsOf([need])}. It needs ${need.resource_scopes.join(' ')} of ${need.resource_id} (scopes of the tool here), and the tier at ${authority} offers ${offered.join(' ')} (scope of the tier). The owner offers it with \`usher owner tier apply\`, or the tool needs less.`
}

function toolsOf(needs: readonly SharedNeed[]): string {
  return listOf(needs.flatMap(({ tools }) => tools))
}

function resourcesOf(needs: readonly SharedNeed[]): string {
  return listOf([...new Set(needs.map(({ resource_id }) => resource_id))])
}

function listOf(names: readonly string[]): string {
  const more = names.length - NAMED_MAX
  return names.slice(0, NAMED_MAX).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
