/**
 * Owns an authority and an organization of which alice may become a member, with a relay of the test in front
 * of each: their messages to each other can be lost, delayed, and sent to another replica.
 */
import { startAlternatingDoor, type AlternatingDoor, type Passage } from './alternating-door.ts'
import { startMembershipStand, type MembershipStand } from './membership.ts'
import { connected } from './postgres.ts'
import { until } from './until.ts'
import { startTestOrganization, type TestOrganization } from './organization.ts'
import { dueAtOnce } from './due.ts'

/** How an organization lists a member. */
export interface ListedMember {
  owner: string
  notices_waiting: number
  notices_stopped: object[]
}

export interface FaultyStand extends MembershipStand {
  toOrganization: AlternatingDoor
  toAuthority: AlternatingDoor
  /** Starts another replica of the organization, and leads its door there. */
  another(): Promise<TestOrganization>
  /** In the authority's database. */
  sql<T extends object>(text: string): Promise<T[]>
  /** Makes every owner who will be due for an organization due now. */
  hurry(kind: 'view' | 'tell'): Promise<unknown>
  /** Nobody waits for the pause between two attempts, nor for the time that a replica has a line. */
  hurryNotices(): Promise<void>
  /** Acts as if so many seconds had passed since the organization last said how she stands. */
  unheardFor(seconds: number): Promise<unknown>
  /** As if a minute had passed since a join whose outcome nobody knows was begun: until it is taken back. */
  takeBackJoins(): Promise<void>
  /** Rises with every loss. */
  epoch(): Promise<number>
  isEnrolled(): Promise<boolean>
  /** As the organization lists alice, asked at this replica. */
  listed(at?: TestOrganization): Promise<ListedMember | undefined>
  /** Moves alice to another group. */
  move(role: string | null): Promise<unknown>
}

/** Starts them; `asProcess`: the organization is a process, which can be killed. */
export async function startFaultyStand({ asProcess = false } = {}): Promise<FaultyStand> {
  const started = await startMembershipStand({
    listen: '127.0.0.1:0',
    authority: { environment: { UMA_AS_LISTEN: '127.0.0.1:0' } },
    asProcess,
  })
  const { organization, authority, issuer } = started
  const toOrganization = await startAlternatingDoor(Number(new URL(issuer).port))
  const toAuthority = await startAlternatingDoor(Number(new URL(authority.issuer).port))
  toOrganization.replicas.push(organization.publicUrl)
  toAuthority.replicas.push(authority.publicUrl)
  const others: TestOrganization[] = []
  const sql: FaultyStand['sql'] = async <T extends object>(text: string) =>
    (await authority.database.pool.query<T>(text)).rows
  return {
    ...started,
    toOrganization,
    toAuthority,
    another: async () => {
      const other = await startTestOrganization({ beside: organization })
      others.push(other)
      toOrganization.replicas.splice(0, 1, other.publicUrl)
      return other
    },
    sql,
    hurry: kind => dueAtOnce(authority.database, kind),
    hurryNotices: () =>
      connected(organization.environment['DATABASE_URL']!, async client => {
        await client.query('UPDATE notice_lines SET due_at = now()')
      }),
    unheardFor: seconds => sql(`UPDATE memberships SET read_at = now() - ${seconds} * interval '1 second'`),
    takeBackJoins: async () => {
      await sql("UPDATE organization_calls SET since = now() - interval '61 seconds'")
      await sql(`INSERT INTO due (owner, kind) VALUES ('alice', 'tell')
        ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = now()`)
      await until(async () => (await sql('SELECT 1 FROM organization_calls')).length === 0)
    },
    epoch: async () => (await sql<{ at: number }>('SELECT org_epoch::int AS at FROM memberships'))[0]!.at,
    isEnrolled: async () => (await started.own('GET')).body.enrolled as boolean,
    listed: async (at = organization) => {
      const { body } = await at.admin({ target: '/admin/members' })
      return (body as ListedMember[]).find(({ owner }) => owner === 'alice')
    },
    move: role => organization.admin({ method: 'POST', target: '/admin/members/alice/role', json: { role } }),
    close: async () => {
      await Promise.all([toOrganization.close(), toAuthority.close(), ...others.map(one => one.close())])
      await started.close()
    },
  }
}

/** Whether an authority asks to let an owner join. */
export const isJoin = ({ path }: Passage): boolean => path === '/member/join'
