/**
 * Owns how requests of owners are made in a history: each at an authority of chance, and some of those that
 * change anything twice, byte for byte.
 */
import { prepare, type OwnerCall, type PreparedCall } from '../support/authority.ts'
import type { Setting } from './agents.ts'
import type { Person } from './processes.ts'
import type { Begun, Told } from './recorder.ts'
import { ask, type Came } from './requests.ts'

export interface OwnerRequests {
  /** Signed by her, for the authority at this place. */
  own: (person: Person, call: OwnerCall, via: number) => PreparedCall
  /** Asks, without a place in the history: what is only looked up, or made before anything else. */
  look: (person: Person, call: OwnerCall) => Promise<Came>
  /** A change, signed once; some are sent twice, at the same time or one after the other. */
  change: (
    person: Person,
    call: OwnerCall,
    about: (request: string, via: string) => Begun,
    told: (came: Came) => Told,
  ) => Promise<Came>
}

/** Requests are counted over all owners, so that no two of a history have one name. */
let requests = 0

/** Requests to the authorities of a setting. */
export function ownerRequests({
  processes,
  recorder,
  chance,
}: Pick<Setting, 'processes' | 'recorder' | 'chance'>): OwnerRequests {
  const own: OwnerRequests['own'] = (person, call, via) =>
    prepare(processes.authorities[via]!.ownerUrl, processes.issuer, person, call)
  return {
    own,
    look: (person, call) => {
      recorder.count++
      return ask(own(person, call, chance.below(2)))
    },
    change: async (person, call, about, told) => {
      const request = `request ${requests++}`
      const first = chance.below(2)
      const prepared = own(person, call, first)
      const send = async (via: number): Promise<Came> => {
        const op = recorder.begin(about(request, `authority-${via + 1}`))
        const url = prepared.url.replace(
          processes.authorities[first]!.ownerUrl,
          processes.authorities[via]!.ownerUrl,
        )
        const came = await ask({ ...prepared, url })
        recorder.end(op, told(came))
        return came
      }
      const twice = chance.next()
      const [came] = await Promise.all([send(first), ...(twice < 1 / 8 ? [send(1 - first)] : [])])
      if (twice > 3 / 4) await send(1 - first)
      return came
    },
  }
}

/** An answer that tells nothing but that it came. */
export const plainly = ({ outcome, code }: Came): Told => ({ outcome, code })
